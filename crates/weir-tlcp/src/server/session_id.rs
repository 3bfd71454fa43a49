//! Session ids: bearer secrets of 128 random bits, short enough to be stored in place.

use std::fmt;

use crate::request::fmt_secret;

/// Base 62 digits that hold 128 bits.
const DIGITS: usize = 22;

/// A session id: `S` and 22 characters of `[A-Za-z0-9]`, all from the caller's random bytes.
///
/// `Debug` and `Display` show the first six characters only; [`Self::as_str`] is for the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; DIGITS + 1]);

impl SessionId {
    /// Spells 128 random bits. The bytes must come from a cryptographic source.
    pub fn from_random(random: &[u8; 16]) -> Self {
        const ALPHABET: &[u8; 62] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut bits = u128::from_be_bytes(*random);
        let mut id = [b'S'; DIGITS + 1];
        for digit in &mut id[1..] {
            *digit = ALPHABET[(bits % 62) as usize];
            bits /= 62;
        }
        Self(id)
    }

    /// The id as it travels.
    pub fn as_str(&self) -> &str {
        // Built from ASCII letters and digits only, so this never falls back.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_secret(self.as_str(), f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_secret(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_and_keep_all_bits() {
        let low = SessionId::from_random(&[0; 16]);
        let high = SessionId::from_random(&[0xff; 16]);
        assert_eq!(low.as_str(), "SAAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(high.as_str().len(), 23);
        assert!(
            high.as_str()
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric())
        );
        for bit in 0..128 {
            let flipped = (1u128 << bit).to_be_bytes();
            assert_ne!(SessionId::from_random(&flipped), low);
        }
    }

    #[test]
    fn ids_are_not_shown_whole() {
        let id = SessionId::from_random(&[0; 16]);
        assert_eq!(id.to_string(), "SAAAAA…");
        assert_eq!(format!("{id:?}"), "SAAAAA…");
    }
}
