//! Bodies of the fuzz targets, also run by the property tests. Not a public API.

use std::sync::Arc;

use crate::fetch::{BufferPool, FetchedRecords, RecordDecoder, scan};
use crate::registry::{parse_schema, parse_subject};

/// Decodes bytes as the batches of a fetched partition, of all transactions or of committed ones.
pub fn fetched(data: &[u8]) {
    let pool = Arc::<BufferPool>::default();
    for aborted in [None, Some(Vec::new())] {
        let mut response = pool.take();
        response.bytes = data.to_vec();
        let mut decoder = RecordDecoder::new(Arc::clone(&pool), false);
        let _ = scan(data);
        decoder.open(FetchedRecords {
            key: (0, 0),
            generation: 0,
            topic: "t".into(),
            from: 0,
            response: Arc::new(response),
            range: 0..data.len(),
            aborted,
        });
        while let Some(Ok(record)) = decoder.next() {
            let _ = record.record(&mut 0);
        }
    }
}

/// Reads bytes as a response of a schema registry.
pub fn registry_response(data: &[u8]) {
    let schema = parse_schema(data);
    let subject = parse_subject(data);
    assert!(schema.is_ok() || subject.is_err());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_seed_is_valid() {
        const RESPONSE: &[u8] =
            include_bytes!("../../../fuzz/seeds/kafka_registry_response/subject");
        assert!(parse_subject(RESPONSE).is_ok());
        for end in 0..RESPONSE.len() {
            registry_response(&RESPONSE[..end]);
        }
    }
}
