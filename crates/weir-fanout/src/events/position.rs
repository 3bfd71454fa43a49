//! Positions in Kafka as ids of events: the next offset of each partition of a Kafka connection.
//!
//! An id is base64url without padding: a version, a check of the partitions that it names, and one
//! number per partition in their order. Peers send ids, so any text may be one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Maximum number of partitions of a Kafka connection whose events have ids.
pub const PARTITIONS_MAX: usize = 64;
/// Maximum length of an id: a version, a check, and 9 bytes per partition, in base64.
pub const ID_BYTES_MAX: usize = (1 + CHECK_BYTES + 9 * PARTITIONS_MAX).div_ceil(3) * 4;

const VERSION: u8 = 1;
/// Bytes of the check of the partitions.
const CHECK_BYTES: usize = 6;
const CHECK_MASK: u64 = (1 << (8 * CHECK_BYTES)) - 1;

/// Next offsets of all partitions of a Kafka connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Check of the partitions, see [`check_of`].
    pub check: u64,
    /// Next offset of each partition.
    pub next: Box<[i64]>,
}

impl Position {
    /// Reads an id; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > ID_BYTES_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (version, rest) = bytes.split_first()?;
        let (check, mut rest) = rest.split_at_checked(CHECK_BYTES)?;
        if *version != VERSION {
            return None;
        }
        let mut next = Vec::new();
        while !rest.is_empty() {
            if next.len() == PARTITIONS_MAX {
                return None;
            }
            next.push(take_number(&mut rest)?);
        }
        let check = check
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        (!next.is_empty()).then(|| Self {
            check,
            next: next.into(),
        })
    }
}

#[cfg(any(test, fuzzing))]
impl Position {
    /// Returns the id of the position.
    pub(crate) fn id(&self) -> String {
        let mut id = String::new();
        push_id(&mut id, &mut Vec::new(), self.check, &self.next);
        id
    }
}

/// Appends the id of a position. `scratch` is reused.
pub(crate) fn push_id(out: &mut String, scratch: &mut Vec<u8>, check: u64, next: &[i64]) {
    scratch.clear();
    scratch.push(VERSION);
    scratch.extend_from_slice(&(check & CHECK_MASK).to_be_bytes()[8 - CHECK_BYTES..]);
    next.iter().for_each(|offset| push_number(scratch, *offset));
    URL_SAFE_NO_PAD.encode_string(scratch, out);
}

/// Returns the check of names and ids: ids of events with another check are those of other
/// partitions. It detects mistakes, not attacks: any position is valid input.
pub(crate) fn check_of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    // FNV-1a, which is the same in every process.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        let length = (part.len() as u64).to_be_bytes();
        for byte in length.iter().chain(part) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    (hash ^ hash >> (8 * CHECK_BYTES)) & CHECK_MASK
}

/// Appends a number that is not negative, 7 bits per byte.
fn push_number(out: &mut Vec<u8>, number: i64) {
    let mut rest = number.max(0);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reads a number in its shortest form.
fn take_number(bytes: &mut &[u8]) -> Option<i64> {
    let mut number: i64 = 0;
    for index in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= i64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return (*byte > 0 || index == 0).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(check: u64, next: &[i64]) -> String {
        let mut text = String::new();
        push_id(&mut text, &mut Vec::new(), check, next);
        text
    }

    #[test]
    fn ids_are_short() {
        assert_eq!(id(0x0102_0304_0506, &[0]), "AQECAwQFBgA");
        assert!(id(CHECK_MASK, &[100_000; 8]).len() < 50);
        let longest = id(CHECK_MASK, &[i64::MAX; PARTITIONS_MAX]);
        assert!(longest.len() <= ID_BYTES_MAX);
        assert!(Position::parse(&longest).is_some());
    }

    #[test]
    fn other_texts_are_no_ids() {
        let valid = id(7, &[300, 2]);
        for text in [
            "",
            "AQ",
            "AQECAwQFBg",
            "12345",
            &valid[..valid.len() - 4],
            &format!("{valid}="),
            &format!("{valid} "),
            &id(7, &[1; PARTITIONS_MAX + 1]),
            &"A".repeat(ID_BYTES_MAX + 1),
        ] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }

    #[test]
    fn check_depends_on_every_part() {
        let check = |parts: &[&str]| check_of(parts.iter().map(|part| part.as_bytes()));
        assert_ne!(check(&["a", "b"]), check(&["ab"]));
        assert_ne!(check(&["a", "b"]), check(&["a", "c"]));
        assert_eq!(check(&[]), 0x9ce4_8422_e8d7);
    }

    proptest! {
        #[test]
        fn parsed_ids_are_those_written(
            check in 0..=CHECK_MASK,
            next in prop::collection::vec(0..=i64::MAX, 1..=PARTITIONS_MAX),
        ) {
            let position = Position::parse(&id(check, &next)).expect("an id");
            prop_assert_eq!(position.check, check);
            prop_assert_eq!(&*position.next, &next[..]);
        }

        #[test]
        fn any_text_is_read(text in "[A-Za-z0-9_-]{0,80}|.*") {
            if let Some(position) = Position::parse(&text) {
                prop_assert!(position.next.iter().all(|offset| *offset >= 0));
                prop_assert_eq!(position.id(), text);
            }
        }
    }
}
