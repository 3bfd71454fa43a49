//! Parses the timestamp of the published payloads: at the start of a text, or as a member of a JSON
//! object, with or without the mark of probe records.

use memchr::memmem::Finder;

use crate::local_time::{LocalTime, TEXT_LEN};
use crate::payload::MARK;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueTimestamp {
    /// Due time; `None` if the text does not start with a timestamp.
    pub(crate) unix_ns: Option<u64>,
    /// `true` if the text carries [`MARK`].
    pub(crate) marked: bool,
}

/// Parser of timestamps with cached state.
#[derive(Debug)]
pub(crate) struct DueReader {
    /// Quoted name of the member; `None`: objects are parsed as text, too.
    member: Option<Finder<'static>>,
    local: LocalTime,
}

impl DueReader {
    /// Reads the timestamp of objects from the member `name`.
    pub(crate) fn with_member(name: &str, local: LocalTime) -> Self {
        let quoted = format!("\"{name}\"");
        Self {
            member: Some(Finder::new(quoted.as_bytes()).into_owned()),
            local,
        }
    }

    /// Parses every value as text.
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

    /// Returns the text that starts with the timestamp: the member of an object, else the value
    /// itself.
    fn text<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        let member = match &self.member {
            Some(member) if value.first() == Some(&b'{') => member,
            _ => return Some(value),
        };
        // If a text value equals the member name, no colon follows it.
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
    fn timestamps_of_published_payloads_are_read() {
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
