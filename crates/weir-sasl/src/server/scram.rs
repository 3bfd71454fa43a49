//! SCRAM (RFC 5802, RFC 7677), server side, as Kafka has it: names and passwords are UTF-8 without
//! SASLprep, and there is no channel binding.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_security::ScramHash;

use super::bearer::decode_name;
use super::{ExchangeStep, FailureReason};
use crate::scram::{Algorithms, xor};
use crate::users::{Credential, Users};

/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// Exchange of one login.
#[derive(Debug)]
pub(super) struct ScramServer {
    hash: ScramHash,
    user: String,
    credential: Arc<Credential>,
    /// Client's and server's nonce.
    nonce: String,
    /// Base64 form of the client's header.
    header: String,
    /// Client's first message without header, and the server's first.
    signed: String,
}

impl ScramServer {
    /// Reads the client's first message. `nonce` must be random and printable, without a comma.
    /// Returns the exchange and the server's first message.
    pub(super) fn begin(
        hash: ScramHash,
        message: &[u8],
        users: &Users,
        nonce: &str,
    ) -> Option<(Self, Vec<u8>)> {
        let text = text(message)?;
        let (header, bare) = split_header(text)?;
        let mut attributes = bare.split(',');
        let user = decode_name(attributes.next()?.strip_prefix("n=")?)?;
        let client_nonce = attributes.next()?.strip_prefix("r=")?;
        if client_nonce.is_empty() || !client_nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        // Delegation tokens are the brokers'. Other extensions are ignored, as brokers do.
        if attributes.any(|extension| extension.eq_ignore_ascii_case("tokenauth=true")) {
            return None;
        }
        let authorized = header[2..].trim_end_matches(',');
        if !authorized.is_empty() && decode_name(authorized.strip_prefix("a=")?)? != user {
            return None;
        }
        let credential = users.credential(&user, hash);
        let nonce = format!("{client_nonce}{nonce}");
        let salt = STANDARD.encode(&credential.salt);
        let first = format!("r={nonce},s={salt},i={}", credential.iterations);
        let server = Self {
            hash,
            user,
            credential,
            nonce,
            header: STANDARD.encode(header),
            signed: format!("{bare},{first}"),
        };
        Some((server, first.into_bytes()))
    }

    /// Reads the client's last message with the proof that it knows the password.
    pub(super) fn finish(self, message: &[u8]) -> ExchangeStep {
        let Some((unproved, proof)) = self.parse_last(message) else {
            return ExchangeStep::Failed(FailureReason::Malformed);
        };
        let algorithms = Algorithms::from(self.hash);
        let signed = format!("{},{unproved}", self.signed);
        let signature = algorithms.sign(&self.credential.stored_key, signed.as_bytes());
        let client_key = xor(&proof, &signature);
        let stored_key = algorithms.hash(&client_key);
        if verify_slices_are_equal(&stored_key, &self.credential.stored_key).is_err() {
            return ExchangeStep::Failed(FailureReason::Credentials);
        }
        let server_signature = algorithms.sign(&self.credential.server_key, signed.as_bytes());
        let last = format!("v={}", STANDARD.encode(server_signature));
        ExchangeStep::User(self.user, last.into_bytes())
    }

    /// Returns the last message without its proof, and the proof.
    fn parse_last<'a>(&self, message: &'a [u8]) -> Option<(&'a str, Vec<u8>)> {
        let (unproved, proof) = text(message)?.rsplit_once(",p=")?;
        let mut attributes = unproved.split(',');
        let header = attributes.next()?.strip_prefix("c=")?;
        let nonce = attributes.next()?.strip_prefix("r=")?;
        let proof = STANDARD.decode(proof).ok()?;
        let is_valid = header == self.header
            && nonce == self.nonce
            && proof.len() == self.credential.stored_key.len();
        is_valid.then_some((unproved, proof))
    }
}

fn text(message: &[u8]) -> Option<&str> {
    let is_short = message.len() <= MESSAGE_BYTES_MAX;
    std::str::from_utf8(message).ok().filter(|_| is_short)
}

/// Splits a first message after its header `n,,` or `n,a=NAME,`.
fn split_header(text: &str) -> Option<(&str, &str)> {
    let authorized = text.strip_prefix("n,")?;
    let end = "n,".len() + authorized.find(',')? + 1;
    Some(text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{SaslExchange, ScramUser};
    use proptest::prelude::*;
    use weir_security::{Login, Secret};

    const HASHES: [ScramHash; 2] = [ScramHash::Sha256, ScramHash::Sha512];

    fn users(name: &str, password: &str) -> Users {
        let lines = HASHES.map(|hash| {
            let password = Secret::new(password);
            let credential = Credential::derive(hash, &password, vec![7; 16], 4096);
            format!("{name}:{}:{credential}\n", hash.mechanism())
        });
        Users::parse(&lines.concat(), b"decoy").expect("valid")
    }

    fn client(hash: ScramHash, name: &str, password: &str) -> SaslExchange {
        let login = Login {
            username: name.to_owned(),
            password: Secret::new(password),
        };
        let user = Arc::new(ScramUser::new(hash, login));
        SaslExchange::scram(hash.mechanism(), user, "client-nonce".to_owned())
    }

    /// Runs a login of Weir's own client, which checks the server's signature.
    fn login(hash: ScramHash, users: &Users, name: &str, password: &str) -> ExchangeStep {
        let mut client = client(hash, name, password);
        let first = client.take_first();
        let (server, challenge) =
            ScramServer::begin(hash, &first, users, "server-nonce").expect("valid");
        let last = client.respond(&challenge).expect("valid").expect("a proof");
        let step = server.finish(&last);
        if let ExchangeStep::User(_, signature) = &step {
            assert_eq!(client.respond(signature), Ok(None), "the server is genuine");
        }
        step
    }

    #[test]
    fn example_of_rfc_7677_is_accepted() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("valid");
        let hash = ScramHash::Sha256;
        let credential = Credential::derive(hash, &Secret::new("pencil"), salt, 4096);
        let line = format!("user:SCRAM-SHA-256:{credential}");
        let users = Users::parse(&line, b"").expect("valid");
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (server, challenge) = ScramServer::begin(hash, first, &users, nonce).expect("valid");
        let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(challenge, expected.as_bytes());
        let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let signature = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec();
        assert_eq!(
            server.finish(last),
            ExchangeStep::User("user".to_owned(), signature)
        );
    }

    #[test]
    fn both_hashes_accept_the_password_only() {
        for hash in HASHES {
            let users = users("an=na", "pen,cil");
            let step = login(hash, &users, "an=na", "pen,cil");
            assert!(matches!(step, ExchangeStep::User(user, _) if user == "an=na"));
            for (name, password) in [("an=na", "pencil"), ("bob", "pen,cil")] {
                let step = login(hash, &users, name, password);
                assert_eq!(
                    step,
                    ExchangeStep::Failed(FailureReason::Credentials),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn invalid_first_messages_are_rejected() {
        let users = users("user", "pencil");
        let begin = |message: &str| {
            ScramServer::begin(ScramHash::Sha256, message.as_bytes(), &users, "s").is_some()
        };
        assert!(begin("n,,n=user,r=x"));
        assert!(begin("n,a=user,n=user,r=x,ext=1"));
        for wrong in [
            "",
            "n,n=user,r=x",
            "y,,n=user,r=x",
            "p=tls-unique,,n=user,r=x",
            "n,a=other,n=user,r=x",
            "n,b=user,n=user,r=x",
            "n,,m=x,n=user,r=x",
            "n,,n=,r=x",
            "n,,n=us=er,r=x",
            "n,,n=user,r=",
            "n,,n=user,r=a b",
            "n,,n=user",
            "n,,n=user,r=x,tokenauth=true",
        ] {
            assert!(!begin(wrong), "{wrong}");
        }
        assert!(!begin(&format!(
            "n,,n=user,r={}",
            "x".repeat(MESSAGE_BYTES_MAX)
        )));
    }

    proptest! {
        #[test]
        fn changed_proofs_are_rejected(at in 0_usize..140, by in 1_u8..=255) {
            let users = users("user", "pencil");
            let mut client = client(ScramHash::Sha256, "user", "pencil");
            let first = client.take_first();
            let begun = ScramServer::begin(ScramHash::Sha256, &first, &users, "s");
            let (server, challenge) = begun.expect("valid");
            let mut last = client.respond(&challenge).expect("valid").expect("a proof");
            let at = at % last.len();
            last[at] = last[at].wrapping_add(by);
            prop_assert!(matches!(server.finish(&last), ExchangeStep::Failed(_)));
        }

        #[test]
        fn random_messages_are_no_login(first in ".{0,60}", last in ".{0,60}") {
            let users = users("user", "pencil");
            let first = format!("n,,n=user,r={first}");
            let begun = ScramServer::begin(ScramHash::Sha512, first.as_bytes(), &users, "s");
            if let Some((server, _)) = begun {
                prop_assert!(matches!(server.finish(last.as_bytes()), ExchangeStep::Failed(_)));
            }
        }
    }
}
