//! The arithmetic of SCRAM (RFC 5802, section 3), which clients and servers share.

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2};
use weir_security::ScramHash;

/// Algorithms of one hash function.
#[derive(Clone, Copy)]
pub(crate) struct Algorithms {
    pub(crate) derivation: pbkdf2::Algorithm,
    pub(crate) mac: hmac::Algorithm,
}

impl From<ScramHash> for Algorithms {
    fn from(hash: ScramHash) -> Self {
        match hash {
            ScramHash::Sha256 => Self {
                derivation: pbkdf2::PBKDF2_HMAC_SHA256,
                mac: hmac::HMAC_SHA256,
            },
            ScramHash::Sha512 => Self {
                derivation: pbkdf2::PBKDF2_HMAC_SHA512,
                mac: hmac::HMAC_SHA512,
            },
        }
    }
}

/// Keys of a user: the client's, its hash that servers store, and the server's.
pub(crate) struct ScramKeys {
    pub(crate) client: Vec<u8>,
    pub(crate) stored: Vec<u8>,
    pub(crate) server: Vec<u8>,
}

impl Algorithms {
    /// Returns the bytes of a hash, and so of each key.
    pub(crate) fn key_bytes(self) -> usize {
        self.mac.digest_algorithm().output_len()
    }

    pub(crate) fn hash(self, bytes: &[u8]) -> Vec<u8> {
        digest::digest(self.mac.digest_algorithm(), bytes)
            .as_ref()
            .to_vec()
    }

    pub(crate) fn sign(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        let key = hmac::Key::new(self.mac, key);
        hmac::sign(&key, text).as_ref().to_vec()
    }

    /// Derives the keys from a password. Takes milliseconds. 0 iterations are taken for 1.
    pub(crate) fn derive(self, password: &[u8], salt: &[u8], iterations: u32) -> ScramKeys {
        let mut salted = vec![0; self.key_bytes()];
        let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(self.derivation, rounds, salt, password, &mut salted);
        let client = self.sign(&salted, b"Client Key");
        ScramKeys {
            stored: self.hash(&client),
            server: self.sign(&salted, b"Server Key"),
            client,
        }
    }
}

/// Combines two texts of the same length bit by bit: key and signature to a proof, or proof and
/// signature to a key.
pub(crate) fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(a, b)| a ^ b).collect()
}
