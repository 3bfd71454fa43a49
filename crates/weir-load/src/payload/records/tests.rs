use proptest::prelude::*;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage as _};
use weir_formats::avro::AvroExtractor;
use weir_formats::protobuf::{ProtobufExtractor, ProtobufSchema};

use super::fields::{FieldNames, TimeUnit};
use super::{RecordSpec, RecordValues};
use crate::error::Result;
use crate::local_time::LocalTime;
use crate::stamp::Stamp;
use crate::value_schema::{ParsedSchema, RecordFormat, SchemaArgs, ValueSchema};

const DUE: u64 = 1_700_000_000_123_456_789;
const DUE_TEXT: &str = "2023-11-14 22:13:20.123";
const SAMPLE: &[u8] = include_bytes!("sample.desc");

fn stamp(seq: u64) -> Stamp {
    Stamp {
        due_unix_ns: DUE,
        producer: 3,
        seq,
        sent_unix_ns: Some(DUE + 5),
    }
}

fn names() -> Vec<String> {
    ["Fig", "Pineapple"].map(str::to_owned).into()
}

fn values(spec: &RecordSpec) -> Result<RecordValues> {
    RecordValues::with_templates(100, (spec, &names()), (7, false), LocalTime::utc())
}

/// Returns a schema from a temporary file.
fn schema(text: &[u8], name: &str, message: Option<&str>) -> ValueSchema {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("a written file");
    let format = match name.ends_with(".avsc") {
        true => RecordFormat::Avro,
        false => RecordFormat::Protobuf,
    };
    let args = SchemaArgs {
        schema: Some(path),
        message: message.map(str::to_owned),
    };
    ValueSchema::new(&args, format).expect("a schema")
}

fn avro(text: &str) -> ValueSchema {
    schema(text.as_bytes(), "a.avsc", None)
}

/// Returns the text of a field; checks the whole value.
fn field(schema: &ValueSchema, value: &[u8], name: &str) -> String {
    let path = format!("VALUE.{name}");
    let mut text = String::new();
    let found = match &schema.parsed {
        ParsedSchema::Avro(schema) => {
            let mut reader = AvroExtractor::new(schema, &[&path]).expect("a path");
            reader.read(value, true).expect("a record");
            reader.append(0, value, &mut text).expect("a field")
        }
        ParsedSchema::Protobuf { message, .. } => {
            let mut reader = ProtobufExtractor::new(message, &[&path], true).expect("a path");
            reader.read(value).expect("a message");
            reader.append(0, value, &mut text).expect("a field")
        }
        ParsedSchema::Json => {
            let value: serde_json::Value = serde_json::from_slice(value).expect("an object");
            text = value[name].as_str().expect("a text").to_owned();
            true
        }
    };
    assert!(found, "{name} is not null");
    text
}

#[test]
fn built_in_values_have_time_key_and_stamp() {
    for format in [
        RecordFormat::Avro,
        RecordFormat::Protobuf,
        RecordFormat::Json,
    ] {
        let spec = RecordSpec::built_in(format, None);
        let mut values = values(&spec).expect("values");
        let mut texts = Vec::new();
        for seq in 0..5 {
            let name = seq as usize % 2;
            values.make(name, &stamp(seq));
            let value = values.value().to_vec();
            let read = |name: &str| field(spec.schema(), &value, name);
            assert_eq!(
                (read("timestamp").as_str(), read("sndValue")),
                (DUE_TEXT, names()[name].clone())
            );
            let read_stamp = Stamp::parse_text(read("weir").as_bytes());
            assert_eq!(read_stamp, Some(stamp(seq)), "{format}");
            assert_eq!(read("fstValue").len(), 512);
            texts.push(read("fstValue"));
            values.fill(name, &stamp(seq + 100));
            let read_stamp = field(spec.schema(), values.value(), "weir");
            assert_eq!(
                Stamp::parse_text(read_stamp.as_bytes()),
                Some(stamp(seq + 100))
            );
            assert_eq!(
                field(spec.schema(), values.value(), "fstValue"),
                texts[seq as usize]
            );
        }
        texts.dedup();
        assert_eq!(texts.len(), 5, "records differ");
    }
}

#[test]
fn built_in_values_have_the_requested_size() {
    for format in [
        RecordFormat::Avro,
        RecordFormat::Protobuf,
        RecordFormat::Json,
    ] {
        for size in [200, 203, 1000, 1024, 20_000, 300_000] {
            let spec = RecordSpec::built_in(format, Some(size));
            let mut values = values(&spec).expect("values");
            for seq in 0..100 {
                // The longest key.
                values.make(1, &stamp(seq));
                let len = values.value().len();
                assert!(len == size || len + 1 == size, "{format}: {len} of {size}");
            }
        }
        let error = values(&RecordSpec::built_in(format, Some(20))).expect_err("too small");
        let text = error.to_string();
        assert!(
            text.starts_with("--size 20: values of the built-in"),
            "{text}"
        );
        assert!(text.ends_with("bytes; give more or omit --size"), "{text}");
    }
}

/// Every type, recursion through all types that can end it, and a nullable time.
const EVERY_AVRO_TYPE: &str = r#"{"type": "record", "name": "All", "fields": [
    {"name": "nothing", "type": "null"}, {"name": "flag", "type": "boolean"},
    {"name": "i", "type": "int"}, {"name": "l", "type": "long"},
    {"name": "f", "type": "float"}, {"name": "d", "type": "double"},
    {"name": "b", "type": "bytes"}, {"name": "s", "type": "string"},
    {"name": "at", "type": ["null", "int", {"type": "long", "logicalType": "timestamp-micros"}]},
    {"name": "x", "type": {"type": "fixed", "name": "X", "size": 5}},
    {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["P", "Q", "R"]}},
    {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [
        {"name": "s", "type": "string"}, {"name": "again", "type": ["All", "null"]}]}},
    {"name": "many", "type": {"type": "array", "items": ["null", "Inner"]}},
    {"name": "tree", "type": {"type": "array", "items": "All"}},
    {"name": "map", "type": {"type": "map", "values": {"type": "map", "values": "int"}}},
    {"name": "note", "type": ["string", "null"]}, {"name": "end", "type": "string"}]}"#;

#[test]
fn every_avro_type_is_written() {
    let names = FieldNames {
        time: Some("at".to_owned()),
        stamp: Some("note".to_owned()),
        key: Some("s".to_owned()),
        ..FieldNames::default()
    };
    for size in [None, Some(700), Some(701), Some(4000)] {
        let spec = RecordSpec::new(avro(EVERY_AVRO_TYPE), &names, size).expect("fields");
        let mut values = values(&spec).expect("values");
        for seq in 0..50 {
            values.make(1, &stamp(seq));
            let value = values.value();
            let read = |name: &str| field(spec.schema(), value, name);
            assert_eq!(read("at"), (DUE / 1000).to_string());
            assert_eq!(Stamp::parse_text(read("note").as_bytes()), Some(stamp(seq)));
            assert_eq!(read("s"), "Pineapple");
            assert_eq!(read("map").matches("fill").count(), 0);
            assert!(read("end").bytes().all(|byte| byte.is_ascii_alphanumeric()));
            assert!(size.is_none_or(|size| value.len() == size || value.len() + 1 == size));
        }
    }
}

#[test]
fn impossible_schemas_are_rejected() {
    let endless = r#"{"type": "record", "name": "A", "fields": [
        {"name": "b", "type": {"type": "record", "name": "B", "fields": [
            {"name": "a", "type": "A"}]}}]}"#;
    let empty = r#"{"type": "record", "name": "A", "fields": [
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": []}}]}"#;
    let fixed = r#"{"type": "record", "name": "A", "fields": [{"name": "b", "type": "boolean"}]}"#;
    let huge = r#"{"type": "record", "name": "A", "fields": [
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 2147483647}}]}"#;
    for (text, size, reason) in [
        (endless, None, "contains itself in every value"),
        (empty, None, "an enum has no symbols"),
        ("\"string\"", None, "it is not the schema of a record"),
        (fixed, Some(100), "no text to lengthen; omit --size"),
        (&wide(), None, "more than 100000 values"),
        (&deep_avro(), None, "more than 100 levels"),
        (huge, None, "more than 134217728 bytes"),
    ] {
        let spec = RecordSpec::new(avro(text), &FieldNames::default(), size).expect("no fields");
        let error = values(&spec).expect_err("impossible").to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// Arrays inside of arrays, each with two items.
fn wide() -> String {
    let (open, close) = (r#"{"type": "array", "items": "#.repeat(20), "}".repeat(20));
    let fields = format!(r#"[{{"name": "a", "type": {open}"int"{close}}}]"#);
    format!(r#"{{"type": "record", "name": "A", "fields": {fields}}}"#)
}

/// Records inside of records, deeper than any library reads.
fn deep_avro() -> String {
    let inner = |number: usize| match number {
        0 => "\"int\"".to_owned(),
        _ => format!("\"R{}\"", number - 1),
    };
    let record = |number| {
        let fields = format!(r#"[{{"name": "a", "type": {}}}]"#, inner(number));
        let own = format!(r#"{{"type": "record", "name": "R{number}", "fields": {fields}}}"#);
        format!(r#"{{"name": "f{number}", "type": {own}}}"#)
    };
    let fields: Vec<_> = (0..5000).map(record).collect();
    format!(
        r#"{{"type": "record", "name": "A", "fields": [{}]}}"#,
        fields.join(",")
    )
}

#[test]
fn deep_message_is_rejected() {
    let message = |number| format!("message M{number} {{ M{} m = 1; }} ", number + 1);
    let messages: String = (0..5000).map(message).collect();
    let text = format!("syntax = \"proto3\"; {messages} message M5000 {{}}");
    let schema = schema(text.as_bytes(), "m.proto", None);
    let spec = RecordSpec::new(schema, &FieldNames::default(), None).expect("no fields");
    let error = values(&spec).expect_err("too deep").to_string();
    assert!(error.contains("more than 100 levels"), "{error}");
}

#[test]
fn records_of_random_schemas_can_be_read() {
    let built_in = [RecordFormat::Avro, RecordFormat::Protobuf].map(RecordFormat::built_in);
    let samples = [
        (0_u8, EVERY_AVRO_TYPE.as_bytes()),
        (0, built_in[0].as_bytes()),
        (1, built_in[1].as_bytes()),
        (2, SAMPLE),
    ];
    for (choice, schema) in samples {
        for choice in [choice, choice | 4] {
            crate::fuzz::record_schema(&[&[choice], schema].concat());
        }
        let mut changed = [&[choice], schema].concat();
        let step = (changed.len() / 50).max(1);
        for at in (1..changed.len()).step_by(step) {
            let old = std::mem::replace(&mut changed[at], b'1');
            crate::fuzz::record_schema(&changed);
            changed[at] = old;
        }
    }
}

#[test]
fn messages_agree_with_prost_reflect() {
    let pool = DescriptorPool::decode(SAMPLE).expect("a descriptor set");
    let parsed = ProtobufSchema::from_descriptor_set(SAMPLE).expect("a descriptor set");
    let names = FieldNames {
        time: Some("far".to_owned()),
        stamp: Some("text".to_owned()),
        key: Some("string_value".to_owned()),
        unit: Some(TimeUnit::Milliseconds),
    };
    let mut messages = 0;
    for name in parsed.message_names() {
        let is_everything = name.ends_with("Everything");
        let names = match is_everything {
            true => names.clone(),
            false => FieldNames::default(),
        };
        let schema = schema(SAMPLE, "sample.desc", Some(name));
        let spec = RecordSpec::new(schema, &names, None).expect("fields");
        let Ok(mut values) = values(&spec) else {
            panic!("{name} has values");
        };
        let descriptor = pool.get_message_by_name(name).expect("the same message");
        for seq in 0..20 {
            values.make(0, &stamp(seq));
            let decoded = DynamicMessage::decode(descriptor.clone(), values.value());
            let decoded = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(decoded.unknown_fields().count(), 0, "{name}");
            messages += 1;
            if !is_everything {
                continue;
            }
            let get = |field: &str| {
                decoded
                    .get_field_by_name(field)
                    .expect("a field")
                    .into_owned()
            };
            assert_eq!(get("far").as_i64(), Some((DUE / 1_000_000) as i64));
            assert_eq!(get("string_value").as_str(), Some("Fig"));
            let text = get("text");
            let text = text.as_str().expect("a text").as_bytes();
            assert_eq!(Stamp::parse_text(text), Some(stamp(seq)));
            assert!(
                !decoded.has_field_by_name("count"),
                "another field of the oneof"
            );
            assert!(
                !decoded.has_field_by_name("self"),
                "a message inside of itself"
            );
            let children = get("children");
            assert_eq!(children.as_list().map(<[_]>::len), Some(2));
            assert!(decoded.descriptor().fields().len() > 40);
        }
    }
    assert!(messages > 100, "{messages}");
}

#[test]
fn numeric_times_have_the_unit_of_the_field() {
    let proto = b"syntax = \"proto3\"; message M {
        fixed64 a = 1; sfixed64 b = 2; sint64 c = 3; uint64 d = 4; int64 e = 5; }";
    for name in ["a", "b", "c", "d", "e"] {
        for (unit, expected) in [
            (None, DUE),
            (Some(TimeUnit::Microseconds), DUE / 1_000),
            (Some(TimeUnit::Milliseconds), DUE / 1_000_000),
        ] {
            let names = FieldNames {
                time: Some(name.to_owned()),
                unit,
                ..FieldNames::default()
            };
            let spec = RecordSpec::new(schema(proto, "m.proto", None), &names, None);
            let spec = spec.expect("fields");
            let mut values = values(&spec).expect("values");
            values.make(0, &stamp(0));
            assert_eq!(
                field(spec.schema(), values.value(), name),
                expected.to_string()
            );
            assert!(!spec.has_time_text());
        }
    }
}

#[test]
fn unsuitable_fields_are_rejected() {
    let schema = r#"{"type": "record", "name": "A", "fields": [
        {"name": "s", "type": "string"}, {"name": "i", "type": "int"},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"#;
    let own = |name: &str| Some(name.to_owned());
    let none = FieldNames::default;
    for (names, expected) in [
        (
            FieldNames {
                time: own("t"),
                ..none()
            },
            "--time-field t: values have no such field",
        ),
        (
            FieldNames {
                time: own("i"),
                ..none()
            },
            "--time-field i: the field is not a string or a 64-bit integer",
        ),
        (
            FieldNames {
                stamp: own("ms"),
                ..none()
            },
            "--stamp-field ms: the field is not a string",
        ),
        (
            FieldNames {
                time: own("s"),
                stamp: own("s"),
                ..none()
            },
            "--stamp-field s: the field has another purpose already",
        ),
        (
            FieldNames {
                time: own("s"),
                unit: Some(TimeUnit::Nanoseconds),
                ..none()
            },
            "--time-unit ns: field \"s\" is text",
        ),
        (
            FieldNames {
                time: own("ms"),
                unit: Some(TimeUnit::Nanoseconds),
                ..none()
            },
            "--time-unit ns: the field's logical type has the unit ms",
        ),
        (
            FieldNames {
                unit: Some(TimeUnit::Nanoseconds),
                ..none()
            },
            "--time-unit ns: values have no field for the time",
        ),
    ] {
        let error = RecordSpec::new(avro(schema), &names, None).expect_err("unsuitable");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    assert!(RecordSpec::new(avro(schema), &none(), None).is_ok());
}

proptest! {
    // Each case creates a pool of random text.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sizes_are_reached_or_refused(size in 0_usize..5000) {
        for format in [RecordFormat::Avro, RecordFormat::Protobuf] {
            let spec = RecordSpec::built_in(format, Some(size));
            let names = names();
            let time = LocalTime::utc();
            let values = RecordValues::with_templates(1, (&spec, &names), (7, false), time);
            if let Ok(mut values) = values {
                values.make(1, &stamp(0));
                let len = values.value().len();
                prop_assert!(len == size || len + 1 == size, "{} of {}", len, size);
            } else {
                prop_assert!(size < 200);
            }
        }
    }
}
