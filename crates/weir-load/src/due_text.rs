//! Parses the time in a text: the timestamp of the published payloads, with or without the mark of
//! probe records, a Unix time, or a stamp. The text is a whole value, its start, or a member of a
//! JSON object.

use memchr::memmem::Finder;

use crate::local_time::{LocalTime, TEXT_LEN};
use crate::payload::MARK;
use crate::stamp::{Stamp, TEXT_STAMP_LEN_MAX, parse_decimal};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DueTimestamp {
    /// Due time; `None` if the text does not start with a time.
    pub(crate) unix_ns: Option<u64>,
    /// `true` if the text carries [`MARK`].
    pub(crate) marked: bool,
    /// Stamp, if the text is one.
    pub(crate) stamp: Option<Stamp>,
    /// `true` if the time has a resolution of 1 ms.
    pub(crate) is_coarse: bool,
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
        self.parse(text)
    }

    /// Parses a text that starts with a time.
    pub(crate) fn parse(&mut self, text: &[u8]) -> DueTimestamp {
        let (marked, text) = match text.strip_prefix(MARK.as_bytes()) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let time = text.get(..TEXT_LEN);
        if let Some(unix_ns) = time.and_then(|time| self.local.parse(time)) {
            return DueTimestamp {
                unix_ns: Some(unix_ns),
                marked,
                stamp: None,
                is_coarse: true,
            };
        }
        DueTimestamp {
            marked,
            ..number_or_stamp(text)
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
            // A number has no quotes.
            rest.strip_prefix(b"\"")
                .or_else(|| rest.first()?.is_ascii_digit().then_some(rest))
        })
    }
}

/// Parses a stamp or a Unix time, up to a character that ends both in JSON. The number of digits
/// of a Unix time gives its unit, from the year 2001 to 2286.
fn number_or_stamp(text: &[u8]) -> DueTimestamp {
    let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let limit = TEXT_STAMP_LEN_MAX + 1;
    let len = text.iter().take(limit).take_while(is_part).count();
    let (part, rest) = text.split_at(len);
    let is_end = |byte: &u8| matches!(byte, b'"' | b',' | b'}') || byte.is_ascii_whitespace();
    if !rest.first().is_none_or(is_end) {
        return DueTimestamp::default();
    }
    let unit_ns = match len {
        13 => 1_000_000,
        16 => 1_000,
        19 => 1,
        _ => {
            let stamp = Stamp::parse_text(part);
            return DueTimestamp {
                unix_ns: stamp.map(|stamp| stamp.due_unix_ns),
                stamp,
                ..DueTimestamp::default()
            };
        }
    };
    // At most 19 digits of any kind times the unit fit 64 bits.
    let number = parse_decimal(part);
    DueTimestamp {
        unix_ns: number.and_then(|number| number.checked_mul(unit_ns)),
        is_coarse: number.is_some() && unit_ns == 1_000_000,
        ..DueTimestamp::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arbitrary_texts_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            DueReader::of_text(LocalTime::utc()).read(&bytes);
            let digits: Vec<u8> = bytes.iter().map(|byte| b'.' + byte % 12).collect();
            DueReader::with_member("a", LocalTime::utc()).read(&digits);
        }
    }

    fn read(text: &str) -> DueTimestamp {
        DueReader::with_member("timestamp", LocalTime::utc()).read(text.as_bytes())
    }

    fn due(marked: bool) -> DueTimestamp {
        DueTimestamp {
            unix_ns: Some(3_600_007_000_000),
            marked,
            stamp: None,
            is_coarse: true,
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

    #[test]
    fn unix_times_and_stamps_are_read() {
        let ms = 1_700_000_000_123_000_000;
        for (text, unix_ns, is_coarse) in [
            ("1700000000123", ms, true),
            (r#"{"timestamp": 1700000000123}"#, ms, true),
            (
                r#"{"timestamp":"1700000000123456","a":1}"#,
                ms + 456_000,
                false,
            ),
            (
                r#"{"timestamp":1700000000123456789,"a":1}"#,
                ms + 456_789,
                false,
            ),
        ] {
            let found = read(text);
            assert_eq!(
                (found.unix_ns, found.is_coarse),
                (Some(unix_ns), is_coarse),
                "{text}"
            );
            assert_eq!(found.stamp, None);
        }
        let stamp = Stamp {
            due_unix_ns: ms,
            producer: 3,
            seq: 9,
            sent_unix_ns: Some(ms + 1),
        };
        let mut padded = Vec::new();
        stamp.push_padded_text(&mut padded);
        let padded = String::from_utf8(padded).expect("digits");
        let short = format!("{ms}.3.9.{}", ms + 1);
        for text in [
            padded.clone(),
            short.clone(),
            format!("{{\"timestamp\":\"{padded}\"}}"),
            format!("{{\"timestamp\":\"{short}\",\"a\":1}}"),
        ] {
            let found = read(&text);
            assert_eq!(
                (found.unix_ns, found.stamp),
                (Some(ms), Some(stamp)),
                "{text}"
            );
            assert!(!found.is_coarse);
        }
        for text in [
            "170000000012",
            "1700000000123x",
            "99999999999999999999",
            "1.2.3",
        ] {
            assert_eq!(read(text), DueTimestamp::default(), "{text}");
        }
    }
}
