//! Reads stamp, due time and probe mark of a record.

use memchr::memmem;

use super::latency_source::LatencySource;
use super::values::ValueArgs;
use crate::due_text::{DueReader, DueTimestamp};
use crate::error::Result;
use crate::local_time::LocalTime;
use crate::stamp::{DUE_HEADER, SEQ_HEADER, Stamp, TEXT_HEADER, parse_due};
use crate::value_schema::{DocumentFault, DocumentReader, RecordFormat, unframed};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) stamp: Option<Stamp>,
    pub(super) due_unix_ns: Option<u64>,
    pub(super) from_text: bool,
    /// The latency of the record is recorded.
    pub(super) timed: bool,
    /// Reason why the value cannot be read.
    pub(super) fault: Option<DocumentFault>,
}

/// Reader of origins with cached state.
#[derive(Debug)]
pub(super) struct OriginReader {
    source: LatencySource,
    marked_only: bool,
    due: DueReader,
    /// Finds the field of values that have a schema.
    document: Option<DocumentReader>,
    /// Values of other forms follow the frame of a schema registry.
    is_framed: bool,
}

impl OriginReader {
    /// `values` describes values that have a schema.
    ///
    /// # Errors
    /// The schema cannot be read, or the field is malformed.
    pub(super) fn new(
        source: &LatencySource,
        marked_only: bool,
        values: &ValueArgs,
        local: LocalTime,
    ) -> Result<Self> {
        let due = match source {
            LatencySource::Header => DueReader::with_member("timestamp", local),
            LatencySource::Json(member) => DueReader::with_member(member, local),
            LatencySource::Text | LatencySource::Avro(_) | LatencySource::Protobuf(_) => {
                DueReader::of_text(local)
            }
        };
        Ok(Self {
            source: source.clone(),
            marked_only,
            due,
            document: values.reader(source)?,
            is_framed: values.framed,
        })
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
            _ => None,
        };
        // The text is not needed for records that have a header, unless only some are timed.
        let is_text_read = header_due.is_none() || self.marked_only;
        let read = value
            .filter(|_| is_text_read)
            .map(|value| self.read_value(value));
        let (text, fault) = match read.transpose() {
            Ok(text) => (text, None),
            Err(fault) => (None, Some(fault)),
        };
        let due_unix_ns = header_due.or_else(|| text?.unix_ns);
        Origin {
            stamp: stamp.or_else(|| text?.stamp),
            due_unix_ns,
            from_text: header_due.is_none() && text.is_some_and(|text| text.is_coarse),
            timed: !self.marked_only || text.is_some_and(|text| text.marked),
            fault,
        }
    }

    fn read_value(&mut self, value: &[u8]) -> Result<DueTimestamp, DocumentFault> {
        if let Some(document) = &mut self.document {
            let text = document.read(value)?;
            return Ok(self.due.parse(text.as_bytes()));
        }
        let value = match self.is_framed {
            true => unframed(value, RecordFormat::Json).ok_or(DocumentFault::Unframed)?,
            false => value,
        };
        Ok(self.due.read(value))
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
        let values = ValueArgs::default();
        OriginReader::new(&source, marked_only, &values, LocalTime::utc()).expect("no schema")
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
