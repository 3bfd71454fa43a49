//! Schemas, readers and messages for the tests.

use std::sync::{Arc, OnceLock};

use super::super::error::Missing;
use super::super::reader::ProtobufReader;
use super::super::{ProtobufMessage, ProtobufSchema};
use crate::expression::Expression;
use crate::json::{JsonCheck, PathTree};
use crate::selector_value::SelectorValue;

pub(super) const SAMPLE: &str = include_str!("sample.proto");
pub(super) const LEGACY: &str = include_str!("legacy.proto");
/// Descriptor set of `sample.proto`, written by `protoc --include_imports`.
pub(super) const SAMPLE_SET: &[u8] = include_bytes!("sample.desc");

pub(super) fn sample() -> ProtobufSchema {
    static SCHEMA: OnceLock<ProtobufSchema> = OnceLock::new();
    let schema = || ProtobufSchema::from_descriptor_set(SAMPLE_SET).expect("a descriptor set");
    SCHEMA.get_or_init(schema).clone()
}

pub(super) fn message(name: &str) -> Arc<ProtobufMessage> {
    sample().message(name).expect("a message of the sample")
}

/// A value as the connector sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FoundValue {
    Scalar(String),
    Complex(String),
    Missing(String),
    Malformed,
}

/// Reads one path of a message.
pub(super) fn find(
    message: &Arc<ProtobufMessage>,
    bytes: &[u8],
    path: &str,
    check: JsonCheck,
) -> FoundValue {
    let mut reader = ProtobufReader::default();
    let node = select(&mut reader, message, path);
    if reader.read(bytes, check).is_err() {
        return FoundValue::Malformed;
    }
    let mut text = String::new();
    let appended = reader.append(node, bytes, false, &mut text);
    match appended {
        Ok(SelectorValue::Text) => return FoundValue::Scalar(text),
        Ok(SelectorValue::Null) => panic!("null"),
        Err(Missing::Protobuf(_)) => return FoundValue::Malformed,
        Err(Missing::Reason(crate::error::PathFailure::NotScalar)) => {}
        Err(Missing::Reason(reason)) => return FoundValue::Missing(reason.to_string()),
    }
    text.clear();
    match reader.append(node, bytes, true, &mut text) {
        Ok(_) => FoundValue::Complex(text),
        Err(_) => FoundValue::Malformed,
    }
}

/// Returns the members at a path, without those that a later one replaces.
pub(super) fn members(
    message: &Arc<ProtobufMessage>,
    bytes: &[u8],
    path: &str,
) -> std::collections::BTreeMap<String, String> {
    let mut reader = ProtobufReader::default();
    let node = select(&mut reader, message, path);
    reader.read(bytes, JsonCheck::Needed).expect("a message");
    let mut all = std::collections::BTreeMap::new();
    let name = path.rsplit('.').next().unwrap_or_default();
    let read = reader.members(node, bytes, name, &mut |name, _, text| {
        all.insert(name.to_owned(), text.to_owned());
    });
    read.expect("members");
    all
}

fn select(reader: &mut ProtobufReader, message: &Arc<ProtobufMessage>, path: &str) -> u32 {
    let expression = match path {
        "." | "" => "VALUE".to_owned(),
        _ if path.starts_with('[') => format!("VALUE{path}"),
        _ => format!("VALUE.{path}"),
    };
    let expression = Expression::parse(&expression).expect("an expression");
    let mut paths = PathTree::new();
    let node = paths.add(expression.steps());
    reader.select(message, &Arc::new(paths), [node].into_iter());
    node
}

/// Appends a varint.
pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns a field of wire type 2.
pub(super) fn bytes_field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(u64::from(number) << 3 | 2, &mut out);
    varint(content.len() as u64, &mut out);
    out.extend(content);
    out
}
