//! Session ids: bearer secrets of 101 random bits, stored inline.

use std::fmt;

use crate::secret::fmt_secret;

/// Base 62 digits for at least 96 random bits.
const RANDOM_DIGITS: usize = 17;
/// Base 62 digits for 16 bits.
const SHARD_DIGITS: usize = 3;
/// Base 62 digits for 32 bits.
const SLOT_DIGITS: usize = 6;
const LENGTH: usize = 1 + RANDOM_DIGITS + SHARD_DIGITS + SLOT_DIGITS;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A session id of 27 characters `[A-Za-z0-9]`: `S`, 101 random bits, and the location of the
/// session.
///
/// `Debug` and `Display` show only the first six characters; [`Self::as_str`] returns all.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; LENGTH]);

/// Location of a session in a server. It is part of the id, so that no table shared by threads is
/// needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLocation {
    /// Index of the event loop.
    pub shard: u16,
    /// Index in the sessions of that event loop.
    pub slot: u32,
}

impl SessionId {
    /// Encodes random bits and a location. The bytes must come from a cryptographic source.
    pub fn new(location: SessionLocation, random: &[u8; 16]) -> Self {
        let mut id = [b'S'; LENGTH];
        let (secret, found) = id[1..].split_at_mut(RANDOM_DIGITS);
        let (shard, slot) = found.split_at_mut(SHARD_DIGITS);
        spell(u128::from_be_bytes(*random), secret);
        spell(location.shard.into(), shard);
        spell(location.slot.into(), slot);
        Self(id)
    }

    /// Returns the location in a text with the format of an id. The caller must compare the whole
    /// id.
    pub fn location_of(text: &str) -> Option<SessionLocation> {
        let digits = text.as_bytes().strip_prefix(b"S")?;
        if digits.len() != LENGTH - 1 {
            return None;
        }
        let (secret, found) = digits.split_at(RANDOM_DIGITS);
        let (shard, slot) = found.split_at(SHARD_DIGITS);
        read(secret)?;
        Some(SessionLocation {
            shard: read(shard)?.try_into().ok()?,
            slot: read(slot)?.try_into().ok()?,
        })
    }

    /// Returns the whole id.
    pub fn as_str(&self) -> &str {
        // Consists of ASCII letters and digits, so the fallback is never used.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Writes the lowest digits of a number, the lowest first.
fn spell(mut number: u128, digits: &mut [u8]) {
    for digit in digits {
        *digit = ALPHABET[(number % 62) as usize];
        number /= 62;
    }
}

fn read(digits: &[u8]) -> Option<u128> {
    digits.iter().rev().try_fold(0, |number: u128, digit| {
        let value = ALPHABET.iter().position(|known| known == digit)?;
        Some(number * 62 + value as u128)
    })
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

    const HERE: SessionLocation = SessionLocation { shard: 3, slot: 70 };

    #[test]
    fn ids_are_alphanumeric_and_keep_their_bits() {
        let low = SessionId::new(HERE, &[0; 16]);
        let high = SessionId::new(HERE, &[0xff; 16]);
        assert_eq!(low.as_str(), "SAAAAAAAAAAAAAAAAADAAIBAAAA");
        assert!(
            high.as_str()
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric())
        );
        for bit in 0..101 {
            let flipped = (1u128 << bit).to_be_bytes();
            assert_ne!(SessionId::new(HERE, &flipped), low);
        }
    }

    #[test]
    fn id_contains_location() {
        for (shard, slot) in [(0, 0), (3, 70), (u16::MAX, u32::MAX)] {
            let location = SessionLocation { shard, slot };
            let id = SessionId::new(location, &[0xa5; 16]);
            assert_eq!(SessionId::location_of(id.as_str()), Some(location));
            let text = id.as_str();
            for bad in [&text[1..], &text[..26], &format!("{text}A"), ""] {
                assert_eq!(SessionId::location_of(bad), None);
            }
        }
        for bad in [
            "SAAAAAAAAAAAAAAAAADAAIBAAA-",
            "S-AAAAAAAAAAAAAAAADAAIBAAAA",
            "SAAAAAAAAAAAAAAAAA999IBAAAA",
            "SAAAAAAAAAAAAAAAAADAA999999",
            "sAAAAAAAAAAAAAAAAADAAIBAAAA",
            "SAAAAAAAAAAAAAAAAADAAIBAA\u{e9}",
        ] {
            assert_eq!(SessionId::location_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn display_shortens_ids() {
        let id = SessionId::new(HERE, &[0; 16]);
        assert_eq!(id.to_string(), "SAAAAA…");
        assert_eq!(format!("{id:?}"), "SAAAAA…");
    }
}
