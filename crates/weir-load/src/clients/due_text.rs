//! The seeds' timestamp where the published payloads have it: in front of a text, or as the member
//! `timestamp` of a JSON object, with or without the mark of probe records.

use crate::local_time::{LocalTime, TEXT_LEN};
pub use crate::payload::MARK;

/// What a timestamp text tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) unix_ns: u64,
    /// Whether it carries [`MARK`].
    pub(super) marked: bool,
}

impl Due {
    /// Reads a field that begins with the timestamp, or holds an object with a member of that name.
    pub(super) fn read(field: &[u8], local: &mut LocalTime) -> Option<Self> {
        let text = match field.first()? {
            b'{' => member(field)?,
            _ => field,
        };
        let (marked, text) = match text.strip_prefix(MARK.as_bytes()) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let unix_ns = local.parse(text.get(..TEXT_LEN)?)?;
        Some(Self { unix_ns, marked })
    }
}

/// What follows the opening quote of the first member `timestamp`. The texts before it are random
/// letters and digits, so the name needs no parser to be found.
fn member(object: &[u8]) -> Option<&[u8]> {
    let name_end = memmem(object, NAME)? + NAME.len();
    let rest = object[name_end..].trim_ascii_start();
    let rest = rest.strip_prefix(b":")?.trim_ascii_start();
    rest.strip_prefix(b"\"")
}

fn memmem(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

const NAME: &[u8] = b"\"timestamp\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Due> {
        Due::read(text.as_bytes(), &mut LocalTime::utc())
    }

    fn due(marked: bool) -> Option<Due> {
        Some(Due {
            unix_ns: 3_600_007_000_000,
            marked,
        })
    }

    #[test]
    fn every_published_place_is_read() {
        for (text, marked) in [
            ("1970-01-01 01:00:00.007-pid-0-xyz", false),
            ("1970-01-01 01:00:00.007", false),
            ("PREFIX-1970-01-01 01:00:00.007", true),
            (
                r#"{"timestamp":"1970-01-01 01:00:00.007","fstValue":"x"}"#,
                false,
            ),
            (
                r#"{"id":"James","timestamp" : "PREFIX-1970-01-01 01:00:00.007"}"#,
                true,
            ),
        ] {
            assert_eq!(read(text), due(marked), "{text}");
        }
        for text in [
            "",
            "PREFIX-",
            "{}",
            r#"{"timestamp":7}"#,
            "1970-01-01",
            "no time at all, but long",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
