//! Fuzz targets, run by `fuzz/` and briefly by the property tests.

use std::sync::{Arc, OnceLock};

use crate::avro::{AvroExtractor, AvroSchema};
use crate::protobuf::{ExtractFailure, ProtobufExtractor, ProtobufMessage, ProtobufSchema};

/// Reads `data` as a Protobuf message, and as a schema. A message that is fully checked gives the
/// same texts when only the wanted fields are read.
pub fn protobuf(data: &[u8]) {
    const PATHS: [&str; 14] = [
        "VALUE",
        "VALUE.int32_value",
        "VALUE.string_value",
        "VALUE.nested.deeper.name",
        "VALUE.numbers[2]",
        "VALUE.words[1]",
        "VALUE.children[1].list",
        "VALUE.labels['a']",
        "VALUE.by_number['1'].size",
        "VALUE.by_flag",
        "VALUE.text",
        "VALUE.inner.name",
        "VALUE.order.state",
        "VALUE.order.line",
    ];
    static MESSAGE: OnceLock<Arc<ProtobufMessage>> = OnceLock::new();
    let message = MESSAGE.get_or_init(|| {
        let set = include_bytes!("protobuf/tests/sample.desc");
        let schema = ProtobufSchema::from_descriptor_set(set).expect("a valid set");
        schema
            .message("weir.sample.Everything")
            .expect("its message")
    });
    let texts = |checks_all| {
        let mut extractor =
            ProtobufExtractor::new(message, &PATHS, checks_all).expect("the paths are valid");
        extractor.read(data)?;
        let text = |index| {
            let mut out = String::new();
            extractor.append(index, data, &mut out).map(|_| out)
        };
        let texts: Vec<_> = (0..PATHS.len()).map(text).collect();
        // Success and failure are both fine; a panic is not.
        let _ = extractor.members(0, data, "VALUE", &mut |_, _| {});
        Ok::<_, ExtractFailure>(texts)
    };
    let needed = texts(false);
    if let Ok(whole) = texts(true) {
        assert_eq!(needed.as_ref(), Ok(&whole));
    }
    let _ = ProtobufSchema::from_descriptor_set(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = ProtobufSchema::parse_proto(text, &[]);
    }
}

/// Reads a record with an Avro schema: `data` up to the first byte 0 is the schema, the rest the
/// record. A record that passes the full check is read without an error.
pub fn avro(data: &[u8]) {
    const PATHS: [&str; 8] = [
        "VALUE",
        "VALUE.a",
        "VALUE.a.b",
        "VALUE[0]",
        "VALUE[70000]",
        "VALUE.ab[1].a",
        "VALUE.b['a'][1]",
        "VALUE.a.a.a.a",
    ];
    const SCHEMA: &str = r#"{"type": "record", "name": "R", "fields": [
        {"name": "a", "type": ["null", "R", "string"]},
        {"name": "ab", "type": {"type": "array", "items": ["R", "long", "null"]}},
        {"name": "b", "type": {"type": "map", "values": {"type": "array", "items": "float"}}}]}"#;
    let split = data.iter().position(|byte| *byte == 0);
    let (text, record) = data.split_at(split.unwrap_or(0));
    let given = std::str::from_utf8(text).ok();
    let given = given.and_then(|text| AvroSchema::parse(text, &[]).ok());
    let (schema, record) = match given {
        Some(schema) => (schema, &record[1..]),
        None => (
            AvroSchema::parse(SCHEMA, &[]).expect("a valid schema"),
            data,
        ),
    };
    let schema = Arc::new(schema);
    let mut reader = AvroExtractor::new(&schema, &PATHS).expect("valid paths");
    let is_valid = reader.read(record, true).is_ok();
    let needed = reader.read(record, false);
    if let Err(error) = &needed {
        assert!(!is_valid, "{error}");
        return;
    }
    let mut text = String::new();
    for index in 0..PATHS.len() {
        text.clear();
        // Success and failure are both fine; a panic is not.
        let _ = reader.append(index, record, &mut text);
        let _ = reader.members(index, record, "list", &mut |_, _| {});
    }
}
