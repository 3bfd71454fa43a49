//! Keys and values of records, the same in all drivers.

use super::deadline::{CommandError, CommandOutcome};

/// Returns the value of a command's records: the output of SplitMix64.
pub(super) fn value(seed: u64, len: u64) -> CommandOutcome<Vec<u8>> {
    if len > VALUE_BYTES_MAX {
        return Err(CommandError::Value(len));
    }
    // Invariant: the check above keeps it within memory limits.
    let len = len as usize;
    let mut bytes = Vec::with_capacity(len + size_of::<u64>());
    let mut state = seed;
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// Returns a key: an ordinal, a time, or the mark of a primer.
pub(super) fn key(number: i64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Returns the number of a key, if it has one.
pub(super) fn number(key: Option<&[u8]>) -> Option<i64> {
    Some(i64::from_be_bytes(key?.try_into().ok()?))
}

pub(super) const PRIMER: i64 = -1;
pub(super) const PRIMER_VALUE: [u8; 1] = [0];
pub(super) const KEY_BYTES: u64 = 8;
/// Limit of a value, above any broker's default maximum record size.
const VALUE_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_match_the_documentation() {
        let expected = [0xc1, 0x5c, 0x02, 0x89, 0xec, 0x2d, 0x0a, 0x91, 0x67, 0xec];
        assert_eq!(value(1, 10).expect("small"), expected);
        assert_eq!(value(1, 3).expect("small"), expected[..3]);
        assert!(value(1, 0).expect("small").is_empty());
        assert!(value(1, u64::MAX).is_err());
    }

    #[test]
    fn keys_are_signed_and_big_endian() {
        assert_eq!(key(258), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(key(PRIMER), [0xff; 8]);
        assert_eq!(number(Some(&key(-7))), Some(-7));
        assert_eq!(number(Some(b"short")), None);
        assert_eq!(number(None), None);
    }
}
