//! SCRAM (RFC 5802, RFC 7677), client side. As in Kafka, names and passwords are UTF-8 without
//! SASLprep, and there is no channel binding.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_security::{Login, ScramHash};

use super::error::{ScramError, peer_text};
use crate::scram::{Algorithms, xor};

/// User, password, and the keys last derived from it. The derivation takes milliseconds, and a user
/// has the same salt on all brokers, so thousands of connections share one derivation.
pub struct ScramUser {
    login: Login,
    /// The login is a delegation token.
    is_token: bool,
    algorithms: Algorithms,
    keys: Mutex<Option<Arc<DerivedKeys>>>,
}

struct DerivedKeys {
    salt: Vec<u8>,
    iterations: u32,
    client_key: Vec<u8>,
    stored_key: hmac::Key,
    server_key: hmac::Key,
}

impl fmt::Debug for ScramUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.login.fmt(f)
    }
}

impl ScramUser {
    /// Creates a user without derived keys.
    pub fn new(hash: ScramHash, login: Login) -> Self {
        Self::with_algorithms(hash.into(), login)
    }

    /// Creates a user whose login is a delegation token of the brokers: its id, and its secret in
    /// Base64.
    pub(super) fn of_token(hash: ScramHash, login: Login) -> Self {
        Self {
            is_token: true,
            ..Self::new(hash, login)
        }
    }

    pub(super) fn with_algorithms(algorithms: Algorithms, login: Login) -> Self {
        Self {
            login,
            is_token: false,
            algorithms,
            keys: Mutex::new(None),
        }
    }

    fn keys(&self, salt: Vec<u8>, iterations: u32) -> Arc<DerivedKeys> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = keys.as_ref() {
            if known.salt == salt && known.iterations == iterations {
                return Arc::clone(known);
            }
        }
        Arc::clone(keys.insert(Arc::new(self.derive(salt, iterations))))
    }

    fn derive(&self, salt: Vec<u8>, iterations: u32) -> DerivedKeys {
        let password = self.login.password.reveal().as_bytes();
        // Invariant: 0 iterations were rejected.
        let keys = self.algorithms.derive(password, &salt, iterations);
        let mac = self.algorithms.mac;
        DerivedKeys {
            salt,
            iterations,
            stored_key: hmac::Key::new(mac, &keys.stored),
            server_key: hmac::Key::new(mac, &keys.server),
            client_key: keys.client,
        }
    }
}

/// Exchange of one login.
pub(super) struct ScramExchange {
    user: Arc<ScramUser>,
    nonce: String,
    phase: ScramPhase,
}

enum ScramPhase {
    /// The client's first message is sent.
    First,
    /// The proof is sent; the server must prove that it knows the password too.
    Proof {
        keys: Arc<DerivedKeys>,
        signed: String,
    },
    Complete,
}

impl ScramExchange {
    /// Begins an exchange. `nonce` must be random and printable, without a comma.
    pub(super) fn new(user: Arc<ScramUser>, nonce: String) -> Self {
        Self {
            user,
            nonce,
            phase: ScramPhase::First,
        }
    }

    pub(super) fn first_message(&self) -> Vec<u8> {
        format!("n,,{}", self.first_bare()).into_bytes()
    }

    fn first_bare(&self) -> String {
        let name = self.user.login.username.replace('=', "=3D");
        // Kafka's extension of SCRAM (KIP-48).
        let token = if self.user.is_token {
            ",tokenauth=true"
        } else {
            ""
        };
        format!("n={},r={}{token}", name.replace(',', "=2C"), self.nonce)
    }

    /// Returns the response to a message of the server, or `None` when the server has proved that
    /// it knows the password.
    pub(super) fn respond(&mut self, message: &[u8]) -> Result<Option<Vec<u8>>, ScramError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(ScramError::Message("too long"));
        }
        let message = std::str::from_utf8(message);
        let message = message.map_err(|_| ScramError::Message("not UTF-8"))?;
        match std::mem::replace(&mut self.phase, ScramPhase::Complete) {
            ScramPhase::First => self.prove(message).map(Some),
            ScramPhase::Proof { keys, signed } => {
                verify(message, &keys, &signed)?;
                Ok(None)
            }
            ScramPhase::Complete => Err(ScramError::Message("sent after the last one")),
        }
    }

    fn prove(&mut self, message: &str) -> Result<Vec<u8>, ScramError> {
        let first = ServerFirst::parse(message, &self.nonce)?;
        let keys = self.user.keys(first.salt, first.iterations);
        // "biws" is the Base64 form of the header "n,,".
        let unproved = format!("c=biws,r={}", first.nonce);
        let signed = format!("{},{message},{unproved}", self.first_bare());
        let signature = hmac::sign(&keys.stored_key, signed.as_bytes());
        let proof = xor(&keys.client_key, signature.as_ref());
        self.phase = ScramPhase::Proof { keys, signed };
        Ok(format!("{unproved},p={}", STANDARD.encode(proof)).into_bytes())
    }
}

struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> ServerFirst<'a> {
    fn parse(message: &'a str, client_nonce: &str) -> Result<Self, ScramError> {
        if let Some(error) = message.strip_prefix("e=") {
            return Err(ScramError::Server(peer_text(error)));
        }
        let mut attributes = message.split(',');
        let mut next = |name: &str, missing| {
            let attribute = attributes.next().and_then(|it| it.strip_prefix(name));
            attribute.ok_or(ScramError::Message(missing))
        };
        let nonce = next("r=", "no nonce")?;
        let salt = next("s=", "no salt")?;
        let iterations = next("i=", "no iteration count")?;
        let server_part = nonce.strip_prefix(client_nonce).ok_or(ScramError::Nonce)?;
        if server_part.is_empty() || !nonce.bytes().all(|it| it.is_ascii_graphic()) {
            return Err(ScramError::Nonce);
        }
        let salt = STANDARD.decode(salt);
        let salt = salt.ok().filter(|salt| !salt.is_empty());
        let is_number = iterations.bytes().all(|it| it.is_ascii_digit());
        let iterations = iterations.parse().ok().filter(|_| is_number);
        let iterations = iterations.ok_or(ScramError::Message("invalid iteration count"))?;
        let (min, max) = (ITERATIONS_MIN, ITERATIONS_MAX);
        if !(min..=max).contains(&iterations) {
            return Err(ScramError::Iterations {
                iterations,
                min,
                max,
            });
        }
        Ok(Self {
            nonce,
            salt: salt.ok_or(ScramError::Message("invalid salt"))?,
            iterations,
        })
    }
}

/// Checks the server's last message.
fn verify(message: &str, keys: &DerivedKeys, signed: &str) -> Result<(), ScramError> {
    if let Some(error) = message.strip_prefix("e=") {
        return Err(ScramError::Server(peer_text(error)));
    }
    let signature = message.split(',').next();
    let signature = signature.and_then(|it| it.strip_prefix("v="));
    let signature = signature.ok_or(ScramError::Message("no signature"))?;
    let signature = STANDARD
        .decode(signature)
        .map_err(|_| ScramError::Signature)?;
    let verified = hmac::verify(&keys.server_key, signed.as_bytes(), &signature);
    verified.map_err(|_| ScramError::Signature)
}

/// Minimum of Kafka and of RFC 7677. Fewer make the password easier to guess from an exchange.
const ITERATIONS_MIN: u32 = 4096;
/// Twelve times Kafka's maximum: at most a tenth of a second of CPU time.
const ITERATIONS_MAX: u32 = 200_000;
const MESSAGE_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::pbkdf2;
    use proptest::prelude::*;
    use weir_security::Secret;

    fn user(algorithms: Algorithms, name: &str, password: &str) -> Arc<ScramUser> {
        let login = Login {
            username: name.to_owned(),
            password: Secret::new(password),
        };
        Arc::new(ScramUser::with_algorithms(algorithms, login))
    }

    fn sha256(nonce: &str) -> ScramExchange {
        let user = user(ScramHash::Sha256.into(), "user", "pencil");
        ScramExchange::new(user, nonce.to_owned())
    }

    fn text(bytes: Option<Vec<u8>>) -> String {
        String::from_utf8(bytes.expect("a response")).expect("UTF-8")
    }

    /// The example of RFC 5802, section 5.
    #[test]
    fn sha_1_example_of_rfc_5802() {
        let sha_1 = Algorithms {
            derivation: pbkdf2::PBKDF2_HMAC_SHA1,
            mac: hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        };
        let user = user(sha_1, "user", "pencil");
        let mut scram = ScramExchange::new(user, "fyko+d2lbbFgONRv9qkxdawL".to_owned());
        assert_eq!(
            scram.first_message(),
            b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
        );
        let server = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        assert_eq!(
            text(scram.respond(server).expect("valid")),
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,\
             p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
        );
        let last = scram.respond(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=");
        assert_eq!(last, Ok(None));
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn sha_256_example_of_rfc_7677() {
        let mut scram = sha256("rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.first_message(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = concat!(
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,",
            "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        assert_eq!(
            text(scram.respond(server.as_bytes()).expect("valid")),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        let last = scram.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(last, Ok(None));
    }

    #[test]
    fn names_are_escaped() {
        let user = user(ScramHash::Sha512.into(), "a=b,c", "p");
        let scram = ScramExchange::new(user, "n".to_owned());
        assert_eq!(scram.first_message(), b"n,,n=a=3Db=2Cc,r=n");
    }

    #[test]
    fn weak_or_expensive_servers_are_rejected() {
        let cases = [
            ("r=other,s=QSXC,i=4096", ScramError::Nonce),
            ("r=mine,s=QSXC,i=4096", ScramError::Nonce),
            ("r=mine\u{7f},s=QSXC,i=4096", ScramError::Nonce),
            ("r=mine1,s=,i=4096", ScramError::Message("invalid salt")),
            ("r=mine1,s=!,i=4096", ScramError::Message("invalid salt")),
            ("m=x,r=mine1,s=QSXC,i=4096", ScramError::Message("no nonce")),
            ("r=mine1,s=QSXC", ScramError::Message("no iteration count")),
            (
                "r=mine1,s=QSXC,i=+4096",
                ScramError::Message("invalid iteration count"),
            ),
            (
                "e=unknown-user",
                ScramError::Server("unknown-user".to_owned()),
            ),
        ];
        for (message, expected) in cases {
            let error = sha256("mine").respond(message.as_bytes());
            assert_eq!(error, Err(expected), "{message}");
        }
        for iterations in [0, 1, 4095, 200_001, u32::MAX] {
            let message = format!("r=mine1,s=QSXC,i={iterations}");
            let error = sha256("mine").respond(message.as_bytes());
            assert!(
                matches!(error, Err(ScramError::Iterations { .. })),
                "{error:?}"
            );
        }
        let long = sha256("mine").respond(&[b'x'; MESSAGE_BYTES_MAX + 1]);
        assert_eq!(long, Err(ScramError::Message("too long")));
    }

    #[test]
    fn server_without_the_password_is_rejected() {
        let wrong = [
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            "v=",
            "v=6rri",
            "v=!",
        ];
        for message in wrong {
            let mut scram = sha256("mine");
            scram.respond(b"r=mine1,s=QSXC,i=4096").expect("valid");
            let last = scram.respond(message.as_bytes());
            assert_eq!(last, Err(ScramError::Signature), "{message}");
            // A second attempt to guess the signature is not possible.
            assert!(scram.respond(message.as_bytes()).is_err());
        }
        let mut scram = sha256("mine");
        scram.respond(b"r=mine1,s=QSXC,i=4096").expect("valid");
        let last = scram.respond(b"e=invalid-proof");
        assert_eq!(last, Err(ScramError::Server("invalid-proof".to_owned())));
    }

    #[test]
    fn connections_share_the_derived_keys() {
        let user = user(ScramHash::Sha256.into(), "user", "pencil");
        let first = user.keys(vec![1], 4096);
        assert!(Arc::ptr_eq(&first, &user.keys(vec![1], 4096)));
        assert!(!Arc::ptr_eq(&first, &user.keys(vec![2], 4096)));
    }

    #[test]
    fn debug_shows_no_password() {
        let user = user(ScramHash::Sha256.into(), "user", "pencil");
        user.keys(vec![1], 4096);
        assert!(!format!("{user:?}").contains("pencil"));
    }

    proptest! {
        #[test]
        fn random_messages_never_complete(messages in prop::collection::vec(".{0,80}", 1..4)) {
            let mut scram = sha256("mine");
            for message in messages {
                prop_assert_ne!(scram.respond(message.as_bytes()), Ok(None));
            }
        }
    }
}
