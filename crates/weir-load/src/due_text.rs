//! The seeds' timestamp where their payloads have it: in front of a text, or as a member of a JSON
//! object, with or without the mark of probe records.

use memchr::memmem::Finder;

use crate::local_time::{LocalTime, TEXT_LEN};
use crate::payload::MARK;

/// What a timestamp text tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueTimestamp {
    /// The instant; `None` if the text does not begin with one.
    pub(crate) unix_ns: Option<u64>,
    /// Whether it carries [`MARK`].
    pub(crate) marked: bool,
}

/// Reads timestamps; keeps what speeds that up.
#[derive(Debug)]
pub(crate) struct DueReader {
    /// The quoted name of the member; `None` to take objects as text, too.
    member: Option<Finder<'static>>,
    local: LocalTime,
}

impl DueReader {
    /// Looks into objects for the member of this name.
    pub(crate) fn with_member(name: &str, local: LocalTime) -> Self {
        let quoted = format!("\"{name}\"");
        Self {
            member: Some(Finder::new(quoted.as_bytes()).into_owned()),
            local,
        }
    }

    /// Takes every value as text.
    pub(crate) fn of_text(local: LocalTime) -> Self {
        Self {
            member: None,
            local,
        }
    }

    pub(crate) fn read(&mut self, value: &[u8]) -> DueTimestamp {
        let text = self.text(value).unwrap_or_default();
        let (marked, text) = match text.strip_prefix(MARK.as_bytes()) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let time = text.get(..TEXT_LEN);
        DueTimestamp {
            unix_ns: time.and_then(|time| self.local.parse(time)),
            marked,
        }
    }

    /// What begins with the timestamp: the member of an object, else the value itself.
    fn text<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        let member = match &self.member {
            Some(member) if value.first() == Some(&b'{') => member,
            _ => return Some(value),
        };
        // A text that happens to be the member's name is not followed by a colon.
        member.find_iter(value).find_map(|at| {
            let rest = value[at + member.needle().len()..].trim_ascii_start();
            let rest = rest.strip_prefix(b":")?.trim_ascii_start();
            rest.strip_prefix(b"\"")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> DueTimestamp {
        DueReader::with_member("timestamp", LocalTime::utc()).read(text.as_bytes())
    }

    fn due(marked: bool) -> DueTimestamp {
        DueTimestamp {
            unix_ns: Some(3_600_007_000_000),
            marked,
        }
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
                r#"{"id":"timestamp","timestamp" : "PREFIX-1970-01-01 01:00:00.007"}"#,
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
            assert_eq!(read(text).unix_ns, None, "{text}");
        }
    }
}
