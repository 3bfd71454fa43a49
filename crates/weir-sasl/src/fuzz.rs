//! Bodies of the fuzz targets, also run by the property tests. Not a public API.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use weir_security::{Login, ScramHash, Secret};

use crate::client::{LoginDialogue, LoginProgress, SaslExchange, ScramUser};
use crate::server::{FailureReason, LoginEnv, LoginResponse, Mechanism, ServerLogin};
use crate::users::{UserFile, Users};

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

/// Reads bytes as a file of users. What is read is written and read again.
pub fn users(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(file) = text.parse::<UserFile>() {
        let again = file.to_string().parse::<UserFile>();
        assert_eq!(
            again.as_ref().map(|it| it.entries().count()),
            Ok(file.entries().count())
        );
    }
}

/// Reads bytes as requests and tokens of a client, each with its length before it. Without the
/// password no login is accepted.
pub fn server_login(data: &[u8]) {
    let mechanisms = ["PLAIN", "OAUTHBEARER", "SCRAM-SHA-256", "SCRAM-SHA-512"];
    let mechanisms: Vec<_> = mechanisms.into_iter().filter_map(Mechanism::find).collect();
    // Invariant: an empty file is valid.
    let Ok(users) = Users::parse("", b"decoy") else {
        return;
    };
    let env = LoginEnv {
        mechanisms: &mechanisms,
        users: &users,
        nonce: "nonce",
        now_ms: 0,
    };
    let mut login = ServerLogin::default();
    let mut left = data;
    while let Some((bytes, rest)) = left.split_first() {
        let frame;
        (frame, left) = rest.split_at(usize::from(*bytes).min(rest.len()));
        let reply = match login.expects_raw_token() {
            true => login.raw_token(frame, &env),
            false => match login.request(frame, &env) {
                Ok(reply) => reply,
                Err(_) => return,
            },
        };
        match reply {
            LoginResponse::Send(_) => {}
            LoginResponse::Check(_) => drop(login.reject(FailureReason::Credentials)),
            LoginResponse::User(user) => panic!("{user} is logged in without a password"),
            LoginResponse::Failed { .. } => return,
        }
        assert!(!login.is_logged_in());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOGIN: &[u8] = include_bytes!("../../../fuzz/seeds/kafka_login/1");
    /// Places of the server's messages in it.
    const TOKENS: [std::ops::Range<usize>; 2] = [30..116, 133..179];

    #[test]
    fn login_seed_is_valid() {
        assert!(login(LOGIN), "the example of RFC 7677");
    }

    proptest! {
        #[test]
        fn random_requests_are_no_login(data in prop::collection::vec(any::<u8>(), 0..200)) {
            server_login(&data);
            // After a handshake for PLAIN and raw tokens.
            let mut all = vec![19, 0, 0, 0, 15, 0, 17, 0, 0, 0, 0, 0, 7, 255, 255, 0, 5];
            all.extend_from_slice(b"PLAIN");
            all[0] = all.len() as u8 - 1;
            all.extend_from_slice(&data);
            server_login(&all);
        }

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
