//! Reads stamp, due time and probe mark of a record.

use std::fmt;
use std::str::FromStr;

use memchr::memmem;

use crate::due_text::DueReader;
use crate::local_time::LocalTime;
use crate::stamp::{DUE_HEADER, SEQ_HEADER, Stamp, TEXT_HEADER, parse_due};

/// Source of a record's due time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LatencySource {
    /// Headers of Weir's producers; the text of the value for records without them.
    #[default]
    Header,
    /// From the first 23 characters of the value.
    Text,
    /// Member of a JSON value; the text for values that are not objects.
    Json(String),
}

/// Error for an unknown source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown source \"{0}\": use header, text or json:MEMBER, for example json:timestamp")]
pub struct UnknownSource(String);

impl FromStr for LatencySource {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        match (text, text.strip_prefix("json:")) {
            ("header", _) => Ok(Self::Header),
            ("text", _) => Ok(Self::Text),
            (_, Some(member)) if !member.is_empty() && !member.contains(['"', '\\']) => {
                Ok(Self::Json(member.to_owned()))
            }
            _ => Err(UnknownSource(text.to_owned())),
        }
    }
}

impl fmt::Display for LatencySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Text => f.write_str("text"),
            Self::Json(member) => write!(f, "json:{member}"),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) stamp: Option<Stamp>,
    pub(super) due_unix_ns: Option<u64>,
    pub(super) from_text: bool,
    /// The latency of the record is recorded.
    pub(super) timed: bool,
}

/// Reader of origins with cached state.
#[derive(Debug)]
pub(super) struct OriginReader {
    source: LatencySource,
    marked_only: bool,
    due: DueReader,
}

impl OriginReader {
    pub(super) fn new(source: &LatencySource, marked_only: bool, local: LocalTime) -> Self {
        let due = match source {
            LatencySource::Header => DueReader::with_member("timestamp", local),
            LatencySource::Text => DueReader::of_text(local),
            LatencySource::Json(member) => DueReader::with_member(member, local),
        };
        Self {
            source: source.clone(),
            marked_only,
            due,
        }
    }

    pub(super) fn read<'a>(
        &mut self,
        headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
        value: Option<&[u8]>,
    ) -> Origin {
        let (mut due, mut seq, mut text) = (None, None, None);
        for (name, value) in headers {
            match name {
                DUE_HEADER => due = value,
                SEQ_HEADER => seq = value,
                TEXT_HEADER => text = value,
                _ => {}
            }
        }
        let stamp = Stamp::from_parts(due, seq, text);
        let header_due = match self.source {
            LatencySource::Header => stamp
                .map(|stamp| stamp.due_unix_ns)
                .or_else(|| due.and_then(parse_due)),
            LatencySource::Text | LatencySource::Json(_) => None,
        };
        // The text is not needed for records that have a header, unless only some are timed.
        let is_text_read = header_due.is_none() || self.marked_only;
        let text = value
            .filter(|_| is_text_read)
            .map(|value| self.due.read(value));
        let due_unix_ns = header_due.or_else(|| text?.unix_ns);
        Origin {
            stamp,
            due_unix_ns,
            from_text: header_due.is_none() && due_unix_ns.is_some(),
            timed: !self.marked_only || text.is_some_and(|text| text.marked),
        }
    }
}

/// Returns the name of a key in the producer's ledger: the key itself, or the member `nameId` of a
/// key that is a JSON object.
pub(super) fn key_name(key: &[u8]) -> &[u8] {
    if key.first() != Some(&b'{') {
        return key;
    }
    let name = || {
        let at = memmem::find(key, NAME_MEMBER)? + NAME_MEMBER.len();
        let rest = &key[at..];
        Some(&rest[..memchr::memchr(b'"', rest)?])
    };
    name().unwrap_or(key)
}

const NAME_MEMBER: &[u8] = b"\"nameId\":\"";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "1970-01-01 00:00:00.007";
    const TEXT_DUE: Option<u64> = Some(7_000_000);

    fn reader(source: &str, marked_only: bool) -> OriginReader {
        let source = source.parse().expect("a source");
        OriginReader::new(&source, marked_only, LocalTime::utc())
    }

    fn read(source: &str, marked_only: bool, value: &str, stamped: bool) -> Origin {
        let stamp = Stamp {
            due_unix_ns: 9_000_001,
            producer: 1,
            seq: 2,
            sent_unix_ns: None,
        };
        let (due, seq) = (stamp.due_header(), stamp.seq_header());
        let headers = [
            (DUE_HEADER, Some(due.as_slice())),
            (SEQ_HEADER, Some(seq.as_slice())),
        ];
        let headers = headers.into_iter().take(if stamped { 2 } else { 0 });
        reader(source, marked_only).read(headers, Some(value.as_bytes()))
    }

    #[test]
    fn source_names_round_trip() {
        for text in ["header", "text", "json:timestamp", "json:a.b"] {
            let source: LatencySource = text.parse().expect("a source");
            assert_eq!(source.to_string(), text);
        }
        for text in ["", "json", "json:", "json:a\"b", "xml"] {
            let error = text.parse::<LatencySource>().expect_err("none");
            assert!(
                error.to_string().contains("use header, text or json:"),
                "{error}"
            );
        }
    }

    #[test]
    fn text_is_used_without_headers() {
        let value = format!("{TEXT}-pid-0-abc");
        let stamped = read("header", false, &value, true);
        assert_eq!(
            (stamped.due_unix_ns, stamped.from_text),
            (Some(9_000_001), false)
        );
        let plain = read("header", false, &value, false);
        assert_eq!(
            (plain.due_unix_ns, plain.from_text, plain.stamp),
            (TEXT_DUE, true, None)
        );
        let chosen = read("text", false, &value, true);
        assert_eq!((chosen.due_unix_ns, chosen.from_text), (TEXT_DUE, true));
        assert!(chosen.stamp.is_some(), "deliveries are still checked");
        assert_eq!(read("text", false, "short", false).due_unix_ns, None);
    }

    #[test]
    fn timestamp_member_is_found_in_any_position() {
        for (source, value) in [
            (
                "json:timestamp",
                format!("{{\"timestamp\":\"{TEXT}\",\"a\":1}}"),
            ),
            (
                "json:timestamp",
                format!("{{\"id\":\"timestamp\", \"timestamp\" : \"{TEXT}\"}}"),
            ),
            ("json:at", format!("{{\"timestamp\":1,\"at\":\"{TEXT}\"}}")),
            ("json:timestamp", format!("{TEXT}-pid-0-a")),
            ("header", format!("{{\"timestamp\":\"PREFIX-{TEXT}\"}}")),
        ] {
            let found = read(source, false, &value, false);
            assert_eq!(
                (found.due_unix_ns, found.timed),
                (TEXT_DUE, true),
                "{value}"
            );
        }
        for value in [
            "{}",
            "{\"timestamp\":7}",
            "{\"timestamp\":\"x\"}",
            "{\"timestamp",
        ] {
            assert_eq!(
                read("json:timestamp", false, value, false).due_unix_ns,
                None
            );
        }
    }

    #[test]
    fn only_marked_records_are_timed() {
        let marked = format!("{{\"timestamp\":\"PREFIX-{TEXT}\"}}");
        let plain = format!("{{\"timestamp\":\"{TEXT}\"}}");
        for (source, due) in [("header", Some(9_000_001)), ("json:timestamp", TEXT_DUE)] {
            let found = read(source, true, &marked, true);
            assert_eq!((found.due_unix_ns, found.timed), (due, true));
            let found = read(source, true, &plain, true);
            assert_eq!((found.due_unix_ns, found.timed), (due, false));
        }
    }

    #[test]
    fn json_key_is_named_by_its_member() {
        assert_eq!(key_name(b"Apple"), b"Apple");
        assert_eq!(key_name(b""), b"");
        let key = br#"{"timestamp":"x","nameId":"Timothy","sndValue":"y"}"#;
        assert_eq!(key_name(key), b"Timothy");
        for odd in [b"{}".as_slice(), b"{\"nameId\":\"x", b"{\"nameId\":7}"] {
            assert_eq!(key_name(odd), odd);
        }
    }
}
