//! Fuzz target of schemas: every record that is written can be read.

use weir_formats::avro::AvroExtractor;
use weir_formats::protobuf::ProtobufExtractor;

use super::fields::FieldNames;
use super::{RecordSpec, RecordValues};
use crate::local_time::LocalTime;
use crate::stamp::Stamp;
use crate::value_schema::{ParsedSchema, ValueSchema};

/// Parses `data` as a schema, and writes and reads one of its records. The first byte chooses the
/// language, and whether the record has a size.
pub(crate) fn record_schema(data: &[u8]) {
    let Some((choice, text)) = data.split_first() else {
        return;
    };
    let Ok(schema) = ValueSchema::of_bytes(choice & 3, text) else {
        return;
    };
    let size = (choice & 4 != 0).then_some(300);
    let Ok(spec) = RecordSpec::new(schema, &FieldNames::default(), size) else {
        return;
    };
    let names = ["Fig".to_owned()];
    let time = LocalTime::utc();
    let values = RecordValues::with_templates(1, (&spec, &names), (7, false), time);
    let Ok(mut values) = values else { return };
    let stamp = Stamp {
        due_unix_ns: 1_700_000_000_123_456_789,
        producer: 3,
        seq: 5,
        sent_unix_ns: None,
    };
    values.make(0, &stamp);
    let value = values.value();
    assert!(size.is_none_or(|size| value.len() == size || value.len() + 1 == size));
    match &spec.schema().parsed {
        ParsedSchema::Avro(schema) => {
            let mut reader = AvroExtractor::new(schema, &["VALUE"]).expect("a path");
            reader.read(value, true).expect("a record");
        }
        ParsedSchema::Protobuf { message, .. } => {
            let mut reader = ProtobufExtractor::new(message, &["VALUE"], true).expect("a path");
            reader.read(value).expect("a message");
        }
        ParsedSchema::Json => {}
    }
}
