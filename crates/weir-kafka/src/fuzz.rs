//! Bodies of the fuzz targets, also run by the property tests. Not a public API.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use weir_security::{Login, ScramHash, Secret};

use crate::fetch::{BufferPool, FetchedRecords, RecordDecoder, scan};
use crate::registry::{parse_schema, parse_subject};
use crate::sasl::{LoginDialogue, LoginProgress, SaslExchange, ScramUser};

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

/// Logs in with the responses of a broker; the first byte selects the mechanism, and each response
/// has its length before it. Returns `true` if the login was complete.
pub fn login(data: &[u8]) -> bool {
    let Some((mechanism, mut left)) = data.split_first() else {
        return false;
    };
    let user = Login {
        username: "user".to_owned(),
        password: Secret::new("pencil"),
    };
    let exchange = match mechanism % 4 {
        0 => SaslExchange::plain(&user),
        1 => {
            let user = Arc::new(ScramUser::new(ScramHash::Sha256, user));
            let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
            SaslExchange::scram("SCRAM-SHA-256", user, nonce)
        }
        2 => SaslExchange::bearer(b"n,,".to_vec()),
        _ => SaslExchange::aws_msk_iam(b"{}".to_vec()),
    };
    let mut dialogue = LoginDialogue::new(exchange, None);
    let mut request = BytesMut::new();
    while let Some((bytes, rest)) = left.split_first() {
        let frame;
        (frame, left) = rest.split_at(usize::from(*bytes).min(rest.len()));
        request.clear();
        assert!(dialogue.write(&mut request, 1, "fuzz").is_ok());
        match dialogue.read(frame, Instant::now(), 7) {
            Ok(LoginProgress::Continue) => {}
            Ok(LoginProgress::Complete(_)) => return true,
            Err(error) => {
                assert!(!error.to_string().contains("pencil"));
                return false;
            }
        }
    }
    false
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
    use proptest::prelude::*;

    const LOGIN: &[u8] = include_bytes!("../../../fuzz/seeds/kafka_login/1");
    /// Places of the server's messages in it.
    const TOKENS: [std::ops::Range<usize>; 2] = [30..116, 133..179];

    #[test]
    fn registry_seed_is_valid() {
        const RESPONSE: &[u8] =
            include_bytes!("../../../fuzz/seeds/kafka_registry_response/subject");
        assert!(parse_subject(RESPONSE).is_ok());
        for end in 0..RESPONSE.len() {
            registry_response(&RESPONSE[..end]);
        }
    }

    #[test]
    fn login_seed_is_valid() {
        assert!(login(LOGIN), "the example of RFC 7677");
    }

    proptest! {
        #[test]
        fn random_responses_never_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            login(&data);
        }

        /// A server that does not know the password cannot complete SCRAM.
        #[test]
        fn changed_scram_responses_never_complete(
            at in TOKENS[0].start..LOGIN.len(),
            by in 1_u8..=255,
        ) {
            let mut data = LOGIN.to_vec();
            data[at] = data[at].wrapping_add(by);
            // Other bytes than those of tokens have no effect on the proof.
            prop_assume!(TOKENS.iter().any(|tokens| tokens.contains(&at)));
            prop_assert!(!login(&data));
        }
    }
}
