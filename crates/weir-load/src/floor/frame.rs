//! Encodes a record as the WebSocket frame that the gateway would send for it.

use serde_json::Value;
use weir_kafka::Record;
use weir_net::websocket::push_server_text;
use weir_tlcp::diff::{DiffBudget, DiffFormat, DiffOptions, DiffOrder, DiffOutcome, FieldDiffs};
use weir_tlcp::server::{push_delta_payload_by, push_full_payload};
use weir_tlcp::text::push_value;

use crate::clients::DiffChoice;
use crate::stamp::TEXT_HEADER;

/// Field values of a record, in the order of the schema.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Values(Vec<Option<String>>);

impl Values {
    fn texts(&self) -> impl Iterator<Item = Option<&str>> {
        self.0.iter().map(Option::as_deref)
    }

    /// Copies the values of `other`, reusing memory.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldSource {
    Key,
    Value,
    Timestamp,
    Partition,
    Offset,
    Stamp,
    /// Member of a JSON value; of an array its first element.
    Member(String),
}

impl FieldSource {
    fn of(name: &str) -> Self {
        match name {
            "key" => Self::Key,
            "value" => Self::Value,
            "ts" => Self::Timestamp,
            "partition" => Self::Partition,
            "offset" => Self::Offset,
            "weir" => Self::Stamp,
            member => Self::Member(member.to_owned()),
        }
    }
}

#[derive(Debug)]
pub(super) struct FrameBuilder {
    sources: Vec<FieldSource>,
    is_json: bool,
    diffs: DiffOptions,
    budget: DiffBudget,
    scratch: String,
    line: Vec<u8>,
    frame: Vec<u8>,
}

impl FrameBuilder {
    /// Creates an encoder for these fields. Changed values are sent as diffs of these formats if
    /// shorter.
    pub(super) fn new(fields: &[String], diffs: DiffChoice) -> Self {
        let sources: Vec<FieldSource> = fields.iter().map(|name| FieldSource::of(name)).collect();
        let member = |source: &FieldSource| matches!(source, FieldSource::Member(_));
        Self {
            is_json: sources.iter().any(member),
            sources,
            diffs: DiffOptions {
                order: DiffOrder::of([DiffFormat::JsonPatch, DiffFormat::TlcpDiff])
                    .accepted_by(diffs.accepted()),
                ..DiffOptions::default()
            },
            budget: DiffBudget::unlimited(),
            scratch: String::new(),
            line: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// Reads the fields of a record. Bytes that are not UTF-8 are replaced, as in the extraction
    /// language; a missing value is null.
    pub(super) fn read(&self, record: &Record<'_>, values: &mut Values) {
        let json: Option<Value> = record
            .value
            .filter(|_| self.is_json)
            .and_then(|value| serde_json::from_slice(value).ok());
        values.0.resize(self.sources.len(), None);
        for (source, value) in self.sources.iter().zip(&mut values.0) {
            match source {
                FieldSource::Key => set(value, record.key),
                FieldSource::Value => set(value, record.value),
                FieldSource::Timestamp => *value = Some(record.timestamp_ms.to_string()),
                FieldSource::Partition => *value = Some(record.partition.to_string()),
                FieldSource::Offset => *value = Some(record.offset.to_string()),
                FieldSource::Stamp => {
                    let headers = &record.headers;
                    let stamp = headers.iter().find(|(name, _)| *name == TEXT_HEADER);
                    set(value, stamp.and_then(|(_, stamp)| *stamp));
                }
                FieldSource::Member(name) => {
                    *value = json.as_ref().and_then(|json| member(json, name))
                }
            }
        }
    }

    /// Encodes `U,1,1,...` in an unmasked text frame: all fields, or the changes from `previous`.
    pub(super) fn build(&mut self, previous: Option<&Values>, values: &Values) -> &[u8] {
        self.line.clear();
        self.line.extend_from_slice(b"U,1,1,");
        match previous {
            Some(previous) => {
                // The format of the previous update is not stored, and TLCP-diff must not follow a
                // JSON Patch.
                let patched = self.diffs.order.formats().next() == Some(DiffFormat::JsonPatch);
                let mut field = FieldDiffs {
                    settings: &self.diffs,
                    budget: &mut self.budget,
                    scratch: &mut self.scratch,
                };
                let (line, old, new) = (&mut self.line, previous.texts(), values.texts());
                push_delta_payload_by(line, old, new, |out, _, before, value| {
                    match field.push(out, before, value, patched) {
                        DiffOutcome::Pushed(_) => {}
                        _ => push_value(out, value),
                    }
                });
            }
            None => push_full_payload(&mut self.line, values.texts()),
        }
        self.line.extend_from_slice(b"\r\n");
        self.frame.clear();
        push_server_text(&mut self.frame, &self.line);
        &self.frame
    }
}

fn set(value: &mut Option<String>, bytes: Option<&[u8]>) {
    let Some(bytes) = bytes else {
        *value = None;
        return;
    };
    let text = value.get_or_insert_default();
    text.clear();
    text.push_str(&String::from_utf8_lossy(bytes));
}

fn member(json: &Value, name: &str) -> Option<String> {
    let member = match json.get(name)? {
        Value::Array(elements) => elements.first()?,
        other => other,
    };
    match member {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: Option<&'static [u8]>, value: &'static [u8]) -> Record<'static> {
        Record {
            topic: "t",
            partition: 2,
            offset: 77,
            timestamp_ms: 1_700_000_000_000,
            key,
            value: Some(value),
            headers: [("other", None), (TEXT_HEADER, Some(b"1.2.3.4".as_slice()))]
                .into_iter()
                .collect(),
        }
    }

    fn builder(fields: &str) -> FrameBuilder {
        let names: Vec<String> = fields.split(' ').map(str::to_owned).collect();
        FrameBuilder::new(&names, DiffChoice::NONE)
    }

    fn read(builder: &FrameBuilder, record: &Record<'_>) -> Values {
        let mut values = Values::default();
        builder.read(record, &mut values);
        values
    }

    const SCENARIO_2: &str = "key value ts partition offset weir";

    #[test]
    fn frame_matches_the_gateway_format() {
        let mut builder = builder(SCENARIO_2);
        let line = b"U,1,1,Apple|x-pid-0-y|1700000000000|2|77|1.2.3.4\r\n";
        let values = read(&builder, &record(Some(b"Apple"), b"x-pid-0-y"));
        let frame = builder.build(None, &values);
        // FIN and text, no mask, length below 126.
        assert_eq!(frame[..2], [0x81, line.len() as u8]);
        assert_eq!(frame[2..], line[..]);
        let next = read(&builder, &record(Some(b"Apple"), b"z"));
        assert_eq!(
            &builder.build(Some(&values), &next)[2..],
            b"U,1,1,|z|^4\r\n"
        );
    }

    #[test]
    fn null_and_special_values_are_escaped() {
        let mut builder = builder(SCENARIO_2);
        let mut record = record(None, b"a|b");
        record.headers.clear();
        let values = read(&builder, &record);
        let frame = builder.build(None, &values);
        assert_eq!(&frame[2..], b"U,1,1,#|a%7Cb|1700000000000|2|77|#\r\n");
    }

    #[test]
    fn json_members_are_fields() {
        let mut builder = builder("key firstText firstnumber hobbies none");
        let json = br#"{"firstText":"abc","firstnumber":7,"hobbies":["Chess","Golf"],"none":null}"#;
        let values = read(&builder, &record(Some(b"James"), json));
        let frame = builder.build(None, &values);
        assert_eq!(&frame[2..], b"U,1,1,James|abc|7|Chess|#\r\n");
        let values = read(&builder, &record(Some(b"James"), b"not json"));
        assert_eq!(
            &builder.build(None, &values)[2..],
            b"U,1,1,James|#|#|#|#\r\n"
        );
    }

    #[test]
    fn changed_documents_are_sent_as_patches() {
        let names = ["key", "value", "weir"].map(str::to_owned);
        let choice = DiffChoice::parse("json-patch").unwrap();
        let mut builder = FrameBuilder::new(&names, choice);
        const OLD: &[u8] =
            br#"{"number":1,"text":"some text long enough to make the document worth a patch"}"#;
        const NEW: &[u8] =
            br#"{"number":2,"text":"some text long enough to make the document worth a patch"}"#;
        let old = read(&builder, &record(Some(b"Apple"), OLD));
        let new = read(&builder, &record(Some(b"Apple"), NEW));
        assert_eq!(
            &builder.build(Some(&old), &new)[2..],
            b"U,1,1,|^P[{\"op\":\"replace\",\"path\":\"/number\",\"value\":2}]|\r\n"
        );
    }
}
