//! Bodies of the fuzz targets, also run by the property tests. Not a public API.

use crate::frame::{KafkaFrameReader, SIZE_BYTES};
use crate::header::RequestPeek;
use crate::records::{Batches, DecompressBuffer};
use crate::{
    WireError, api_versions, cluster, delegation_token, fetch, group, leader_epoch, list_offsets,
    message, metadata,
};

/// Reads a stream of frames in chunks; the first byte is the chunk size.
pub fn frame(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else {
        return;
    };
    let mut reader = KafkaFrameReader::new(FRAME_BYTES_MAX);
    let mut arrived = 0;
    for piece in stream.chunks(usize::from(*piece).max(1)) {
        arrived += piece.len();
        let outcome = reader.feed::<WireError>(piece, |frame| {
            assert!(frame.len() <= FRAME_BYTES_MAX);
            responses(frame);
            Ok(())
        });
        assert!(reader.buffered_bytes() <= 2 * arrived + SIZE_BYTES);
        if outcome.is_err() {
            return;
        }
    }
}

/// Reads bytes as the records of a fetch response.
pub fn records(data: &[u8]) {
    let mut buffer = DecompressBuffer::new(1 << 20);
    for batch in Batches::new(data).flatten() {
        let _ = batch.verify_crc();
        let _ = batch.next_offset();
        let Ok(records) = batch.records(&mut buffer) else {
            continue;
        };
        for record in records.flatten() {
            record.headers().for_each(drop);
        }
    }
}

fn responses(frame: &[u8]) {
    let _ = RequestPeek::read(frame);
    let _ = metadata::read(frame, "t");
    let _ = list_offsets::read(frame);
    let _ = fetch::read::<WireError>(13, frame, |_| Ok(()));
    let _ = api_versions::ApiVersions::read(frame);
    let _ = cluster::read(cluster::VERSION, frame);
    let _ = cluster::read(cluster::OLD_VERSION, frame);
    let _ = leader_epoch::read(frame, |_| ());
    let _ = delegation_token::read_created(frame);
    let _ = list_offsets::read_with_epochs(frame, |_, _| ());
    let _ = group::offsets::read_fetch_all(frame, |_, _, _| ());
    let _ = fetch::read::<WireError>(fetch::VERSION, frame, |partition| {
        records(partition.records);
        Ok(())
    });
}

const FRAME_BYTES_MAX: usize = 1 << 16;

/// Decodes `data` as request and response of the API and version in its first bytes. Whatever is
/// accepted has one encoding, which decodes to the same values.
pub fn message(data: &[u8]) {
    let [key, version, body @ ..] = data else {
        return;
    };
    let version = i16::from(*version);
    let api = message::api(i16::from(*key)).filter(|api| api.versions.contains(&version));
    let Some(api) = api else {
        return;
    };
    let flexible = api.is_flexible(version);
    for definition in [&api.request, &api.response] {
        let Ok(row) = message::decode(definition, version, flexible, body) else {
            continue;
        };
        let mut encoded = Vec::new();
        message::encode(&row, definition, version, flexible, &mut encoded);
        let again = message::decode(definition, version, flexible, &encoded);
        assert_eq!(again.as_ref(), Ok(&row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &[u8] = include_bytes!("../../../fuzz/seeds/kafka_records/1");
    const FRAMES: &[u8] = include_bytes!("../../../fuzz/seeds/kafka_frame/1");

    #[test]
    fn seeds_are_valid_inputs() {
        let mut buffer = DecompressBuffer::default();
        let mut count = 0;
        for batch in Batches::new(RECORDS) {
            let batch = batch.expect("a batch");
            assert_eq!(batch.verify_crc(), Ok(()));
            for record in batch.records(&mut buffer).expect("decompresses") {
                assert_eq!(record.expect("a record").header("h"), Some(&b"ab"[..]));
                count += 1;
            }
        }
        assert_eq!(count, 6, "a plain and a gzip batch of three");

        let mut frames = Vec::new();
        let mut reader = KafkaFrameReader::new(FRAME_BYTES_MAX);
        let outcome = reader.feed::<WireError>(&FRAMES[1..], |frame| {
            frames.push(frame.to_vec());
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        assert!(fetch::read::<WireError>(fetch::VERSION, &frames[0], |_| Ok(())).is_ok());
        assert!(metadata::read(&frames[1], "t").is_ok_and(|it| it.topic.is_some()));
        assert!(list_offsets::read(&frames[2]).is_ok_and(|it| it.len() == 1));
        frame(FRAMES);
        records(RECORDS);
    }
}
