//! Values that Weir's reader and `prost-reflect` find in the same messages.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use prost_reflect::prost::Message;
use prost_reflect::prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, skip_field,
};
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey,
    MessageDescriptor, ReflectMessage, Value,
};
use weir_formats::protobuf::{ProtobufExtractor, ProtobufMessage, ProtobufSchema};

use crate::source::Source;

const SET: &[u8] = include_bytes!("../../../crates/weir-formats/src/protobuf/tests/sample.desc");
const NAME: &str = "weir.sample.Everything";
/// File of a schema in proto2, whose required fields and closed enums Weir treats like Java.
const LEGACY_FILE: &str = "legacy.proto";
const DEPTH_MAX: usize = 3;
/// Maximum number of compared values per message.
const LEAVES_MAX: usize = 64;

/// A scalar in a message: its path, its value, and the enum that it is of.
type Leaf<'a> = (String, &'a Value, Option<EnumDescriptor>);

/// Fuzz target: reads a message from `data`, or one made of it. Both readers find the same values.
///
/// # Panics
/// They differ.
pub fn compare(data: &[u8]) {
    static DESCRIPTOR: OnceLock<MessageDescriptor> = OnceLock::new();
    let descriptor = DESCRIPTOR.get_or_init(|| {
        let pool = DescriptorPool::decode(SET).expect("a descriptor set");
        pool.get_message_by_name(NAME).expect("its message")
    });
    let mut source = Source(data);
    if source.below(2) == 0 {
        return check(descriptor, source.0);
    }
    let mut bytes = Vec::new();
    // Messages one after the other are merged.
    for _ in 0..source.below(3) + 1 {
        let message = random_message(descriptor, &mut source, 0);
        bytes.extend(message.encode_to_vec());
    }
    check(descriptor, &bytes);
}

fn random_message(
    descriptor: &MessageDescriptor,
    source: &mut Source<'_>,
    depth: usize,
) -> DynamicMessage {
    let fields: Vec<_> = descriptor.fields().collect();
    let mut message = DynamicMessage::new(descriptor.clone());
    if fields.is_empty() {
        return message;
    }
    for _ in 0..source.below(8) {
        let field = &fields[source.below(fields.len())];
        let value = random_field(field, source, depth);
        if let Some(value) = value {
            message.set_field(field, value);
        }
    }
    message
}

fn random_field(field: &FieldDescriptor, source: &mut Source<'_>, depth: usize) -> Option<Value> {
    let count = source.below(5);
    if field.is_list() {
        let kind = field.kind();
        let items = (0..count).filter_map(|_| random_value(&kind, source, depth));
        return Some(Value::List(items.collect()));
    }
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            let mut entries = HashMap::new();
            for _ in 0..count {
                let key = random_value(&key.kind(), source, depth)?.into_map_key()?;
                entries.insert(key, random_value(&value.kind(), source, depth)?);
            }
            Some(Value::Map(entries))
        }
        kind => random_value(&kind, source, depth),
    }
}

fn random_value(kind: &Kind, source: &mut Source<'_>, depth: usize) -> Option<Value> {
    Some(match kind {
        Kind::Double => Value::F64(f64::from_bits(source.number())),
        Kind::Float => Value::F32(f32::from_bits(source.number() as u32)),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(source.number() as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(source.number() as i64),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(source.number() as u32),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(source.number()),
        Kind::Bool => Value::Bool(source.below(2) == 1),
        Kind::String => Value::String(source.text()),
        Kind::Bytes => Value::Bytes(source.text().into_bytes().into()),
        Kind::Enum(_) => Value::EnumNumber(source.number() as i32),
        Kind::Message(_) if depth == DEPTH_MAX => return None,
        Kind::Message(inner) => Value::Message(random_message(inner, source, depth + 1)),
    })
}

fn check(descriptor: &MessageDescriptor, bytes: &[u8]) {
    static MESSAGE: OnceLock<Arc<ProtobufMessage>> = OnceLock::new();
    let message = MESSAGE.get_or_init(|| {
        let schema = ProtobufSchema::from_descriptor_set(SET).expect("a valid set");
        schema.message(NAME).expect("its message")
    });
    // That library rejects fields of another wire type, which count as unknown in Java, except
    // those of maps, which it decodes.
    if !has_framed_maps(descriptor, bytes) {
        return;
    }
    let Ok(decoded) = DynamicMessage::decode(descriptor.clone(), bytes) else {
        return;
    };
    let mut leaves = Vec::new();
    if !add_message("VALUE", &decoded, &mut leaves) {
        return;
    }
    let paths: Vec<_> = leaves.iter().map(|(path, ..)| path.as_str()).collect();
    for checks_all in [false, true] {
        let reader = ProtobufExtractor::new(message, &paths, checks_all);
        let mut reader = reader.expect("valid paths");
        let read = reader.read(bytes);
        read.unwrap_or_else(|error| panic!("{error}, {bytes:?}"));
        for (index, (path, value, names)) in leaves.iter().enumerate() {
            let mut text = String::new();
            let found = reader.append(index, bytes, &mut text);
            found.unwrap_or_else(|missing| panic!("{path}: {missing}, {bytes:?}"));
            let is_equal = is_text_of(&text, value, names.as_ref());
            assert!(is_equal, "{path}: {text:?} for {value:?}, {bytes:?}");
        }
    }
}

/// Returns `true` if every map entry has the wire type of messages, also in nested messages.
fn has_framed_maps(descriptor: &MessageDescriptor, mut bytes: &[u8]) -> bool {
    while let Ok((number, wire)) = decode_key(&mut bytes) {
        let field = descriptor.get_field(number);
        let is_framed = wire == WireType::LengthDelimited;
        if field.as_ref().is_some_and(FieldDescriptor::is_map) && !is_framed {
            return false;
        }
        let inner = field.as_ref().map(FieldDescriptor::kind);
        let rest = bytes;
        if skip_field(wire, number, &mut bytes, DecodeContext::default()).is_err() {
            break;
        }
        if let (Some(Kind::Message(inner)), true) = (inner, is_framed) {
            let mut content = &rest[..rest.len() - bytes.len()];
            let is_nested =
                decode_varint(&mut content).is_ok() && !has_framed_maps(&inner, content);
            if is_nested {
                return false;
            }
        }
    }
    true
}

/// Adds the scalars of a message. Returns `false` if it contains one of the legacy file.
fn add_message<'a>(path: &str, message: &'a DynamicMessage, out: &mut Vec<Leaf<'a>>) -> bool {
    if message.descriptor().parent_file().name() == LEGACY_FILE {
        return false;
    }
    let fields: Vec<_> = message.fields().collect();
    fields.into_iter().all(|(field, value)| {
        let path = format!("{path}.{}", field.name());
        match (value, field.kind()) {
            (Value::List(items), kind) => {
                let mut items = items.iter().enumerate();
                items.all(|(index, item)| add(format!("{path}[{index}]"), item, &kind, out))
            }
            (Value::Map(entries), Kind::Message(entry)) => {
                let kind = entry.map_entry_value_field().kind();
                let mut entries = entries.iter();
                entries.all(|(key, value)| match key_text(key) {
                    Some(key) => add(format!("{path}['{key}']"), value, &kind, out),
                    None => true,
                })
            }
            (value, kind) => add(path, value, &kind, out),
        }
    })
}

fn add<'a>(path: String, value: &'a Value, kind: &Kind, out: &mut Vec<Leaf<'a>>) -> bool {
    match (value, kind) {
        (Value::Message(inner), _) => return add_message(&path, inner, out),
        _ if out.len() == LEAVES_MAX => {}
        (_, Kind::Enum(names)) => out.push((path, value, Some(names.clone()))),
        _ => out.push((path, value, None)),
    }
    true
}

/// Returns the text of a key as a path has it, `None` if a path cannot have it.
fn key_text(key: &MapKey) -> Option<String> {
    Some(match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => {
            let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric());
            return is_name.then(|| key.clone());
        }
    })
}

/// Returns `true` if the connector prints the scalar so.
fn is_text_of(text: &str, value: &Value, names: Option<&EnumDescriptor>) -> bool {
    match value {
        Value::Bool(value) => text == value.to_string(),
        Value::I32(number) => text == number.to_string(),
        Value::I64(number) => text == number.to_string(),
        Value::U32(number) => text == number.to_string(),
        Value::U64(number) => text == number.to_string(),
        Value::F32(number) => text.parse() == Ok(*number) || number.is_nan() && text == "NaN",
        Value::F64(number) => text.parse() == Ok(*number) || number.is_nan() && text == "NaN",
        Value::String(own) => text == own,
        Value::Bytes(bytes) => text == String::from_utf8_lossy(bytes),
        Value::EnumNumber(number) => {
            let names = names.expect("an enum");
            let mut same = names
                .values()
                .filter(|value| value.number() == *number)
                .peekable();
            match same.peek() {
                Some(_) => same.any(|value| value.name() == text),
                None => text == format!("UNKNOWN_ENUM_VALUE_{}_{number}", names.name()),
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_messages_have_the_same_values() {
        crate::source::random_inputs(20_000, 400, &mut compare);
    }

    #[test]
    fn map_entry_of_another_wire_type_is_not_compared() {
        // Field 30, a map, with wire type 1 and too few bytes.
        let bytes = [0xf1, 0x01, 0x00, 0x72, 0x02, 0x41, 0x62];
        let pool = DescriptorPool::decode(SET).expect("a descriptor set");
        let descriptor = pool.get_message_by_name(NAME).expect("its message");
        assert!(!has_framed_maps(&descriptor, &bytes));
        assert!(DynamicMessage::decode(descriptor.clone(), &bytes[..]).is_ok());
        check(&descriptor, &bytes);
    }
}
