//! Random messages compared with `prost-reflect`.

use std::borrow::Cow;

use super::common::{FoundValue, SAMPLE_SET, bytes_field, find, message, varint};
use crate::expression::{Expression, PathStep};
use crate::json::JsonCheck;
use crate::number::{append_double, append_float};
use proptest::collection::vec;
use proptest::prelude::*;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage, Value,
};

const PATHS: [&str; 44] = [
    "double_value",
    "float_value",
    "int32_value",
    "int64_value",
    "uint32_value",
    "uint64_value",
    "sint32_value",
    "sint64_value",
    "fixed32_value",
    "fixed64_value",
    "sfixed32_value",
    "sfixed64_value",
    "bool_value",
    "string_value",
    "bytes_value",
    "color",
    "maybe",
    "nested.name",
    "nested.size",
    "nested.kind",
    "nested.list[0]",
    "nested.list[3]",
    "nested.counts['a']",
    "numbers[0]",
    "numbers[2]",
    "numbers[7]",
    "loose[1]",
    "names[1]",
    "children[0].name",
    "children[1].deeper.size",
    "children[2].size",
    "doubles[1]",
    "flags[2]",
    "words[3]",
    "labels['a']",
    "labels['']",
    "by_number['1'].name",
    "by_number['-1'].size",
    "by_flag['true']",
    "by_offset['1']",
    "text",
    "count",
    "inner.name",
    "hue",
];

/// A field to append to a message.
#[derive(Debug, Clone)]
struct MessagePart {
    choice: usize,
    number: u64,
    text: String,
    inner: Vec<Self>,
}

fn part() -> impl Strategy<Value = MessagePart> {
    let number = prop_oneof![
        0_u64..3,
        any::<u64>(),
        Just(u64::MAX),
        any::<u32>().prop_map(u64::from)
    ];
    let leaf =
        (any::<usize>(), number, "[ab]{0,2}|\\PC{0,12}").prop_map(|(choice, number, text)| {
            MessagePart {
                choice,
                number,
                text,
                inner: Vec::new(),
            }
        });
    leaf.prop_recursive(3, 24, 6, |inner| {
        (any::<usize>(), any::<u64>(), "[ab]{0,2}", vec(inner, 0..6)).prop_map(
            |(choice, number, text, inner)| MessagePart {
                choice,
                number,
                text,
                inner,
            },
        )
    })
}

/// Appends a field of type `Everything`.
fn write(part: &MessagePart, out: &mut Vec<u8>) {
    let tag = |number: u64, wire: u64, out: &mut Vec<u8>| varint(number << 3 | wire, out);
    let number = |field: u64, out: &mut Vec<u8>| {
        tag(field, 0, out);
        varint(part.number, out);
    };
    let fixed64 = part.number.to_le_bytes();
    let fixed32 = (part.number as u32).to_le_bytes();
    let entry = |field: u32, key: Vec<u8>, value: Vec<u8>, out: &mut Vec<u8>| {
        let both = match part.number % 4 {
            0 => [value, key],
            1 => [key, Vec::new()],
            _ => [key, value],
        };
        out.extend(bytes_field(field, &both.concat()));
    };
    let key = vec![8, (part.number % 3) as u8];
    match part.choice % 34 {
        field @ (3..=8 | 13 | 16 | 18) => number(field as u64, out),
        field @ (1 | 10 | 12) => {
            tag(field as u64, 1, out);
            out.extend(fixed64);
        }
        field @ (0 | 2 | 9 | 11) => {
            tag(if field == 0 { 2 } else { field as u64 }, 5, out);
            out.extend(fixed32);
        }
        14 => out.extend(bytes_field(14, part.text.as_bytes())),
        15 => out.extend(bytes_field(15, part.text.as_bytes())),
        17 => out.extend(bytes_field(17, &nested(part))),
        19 => number(20, out),
        20 => {
            let mut packed = Vec::new();
            for shift in 0..part.number % 6 {
                varint(part.number >> (shift * 11), &mut packed);
            }
            let field = if part.number % 7 == 0 { 21 } else { 20 };
            out.extend(bytes_field(field, &packed));
        }
        21 => number(21, out),
        22 => out.extend(bytes_field(22, part.text.as_bytes())),
        23 => out.extend(bytes_field(23, &nested(part))),
        24 => {
            let packed = fixed64.repeat((part.number % 3) as usize);
            out.extend(bytes_field(25, &packed));
        }
        25 => out.extend(bytes_field(
            26,
            &[1, 0, 1][..(part.number % 4).min(3) as usize],
        )),
        26 => out.extend(bytes_field(28, &fixed32.repeat((part.number % 4) as usize))),
        27 => {
            let key = bytes_field(1, part.text.as_bytes());
            entry(30, key, bytes_field(2, part.text.as_bytes()), out);
        }
        28 => {
            let key = match part.number % 5 {
                0 => [&[8][..], &[0xff; 9], &[1]].concat(),
                _ => key,
            };
            entry(31, key, bytes_field(2, &nested(part)), out);
        }
        29 => entry(32, vec![8, 1], vec![16, (part.number & 0x1f) as u8], out),
        30 => entry(34, vec![8, 2], [&[17][..], &fixed64].concat(), out),
        31 => match part.number % 4 {
            0 => out.extend(bytes_field(40, part.text.as_bytes())),
            1 => number(41, out),
            2 => out.extend(bytes_field(42, &nested(part))),
            _ => number(43, out),
        },
        32 => {
            // An unknown group with a field inside.
            tag(700, 3, out);
            number(1, out);
            tag(700, 4, out);
        }
        _ => number(701, out),
    }
}

/// Returns the bytes of a `Nested` message.
fn nested(part: &MessagePart) -> Vec<u8> {
    let mut out = Vec::new();
    for inner in &part.inner {
        match inner.choice % 6 {
            0 => out.extend(bytes_field(1, inner.text.as_bytes())),
            1 => {
                out.push(16);
                varint(inner.number, &mut out);
            }
            2 => out.extend(bytes_field(3, &nested(inner))),
            3 => out.extend([32, (inner.number & 3) as u8]),
            4 => {
                out.push(40);
                varint(inner.number, &mut out);
            }
            _ => {
                let key = bytes_field(1, inner.text.as_bytes());
                out.extend(bytes_field(6, &[key, vec![16, 5]].concat()));
            }
        }
    }
    out
}

/// A value of the oracle, or the message that has a field.
enum OracleNode<'a> {
    Value(Cow<'a, Value>, Option<FieldDescriptor>),
    Message(&'a DynamicMessage),
}

/// Returns the text that the oracle has for a path, `None` if the path does not exist.
fn expected(message: &DynamicMessage, path: &str) -> Option<String> {
    let expression = Expression::parse(&format!("VALUE.{path}")).expect("an expression");
    let mut node = OracleNode::Message(message);
    let mut owned: Value;
    for step in expression.steps() {
        let (value, field) = match (&node, step) {
            (OracleNode::Message(message), PathStep::Member(name)) => {
                let field = message.descriptor().get_field_by_name(name)?;
                (message.get_field(&field).into_owned(), Some(field))
            }
            (OracleNode::Value(value, field), step) => match (value.as_ref(), step) {
                (Value::Message(message), PathStep::Member(name)) => {
                    let field = message.descriptor().get_field_by_name(name)?;
                    (message.get_field(&field).into_owned(), Some(field))
                }
                (Value::List(list), PathStep::Index { index, .. }) => {
                    (list.get(*index as usize)?.clone(), field.clone())
                }
                (Value::Map(map), PathStep::Member(name)) => {
                    let is_key = |key: &&MapKey| match key {
                        MapKey::Bool(key) => key.to_string() == **name,
                        MapKey::I32(key) => key.to_string() == **name,
                        MapKey::I64(key) => key.to_string() == **name,
                        MapKey::U32(key) => key.to_string() == **name,
                        MapKey::U64(key) => key.to_string() == **name,
                        MapKey::String(key) => *key == **name,
                    };
                    let key = map.keys().find(is_key)?;
                    let value_field = field.as_ref().map(|field| match field.kind() {
                        Kind::Message(entry) => entry.map_entry_value_field(),
                        _ => unreachable!("a map"),
                    });
                    (map[key].clone(), value_field)
                }
                _ => return None,
            },
            _ => return None,
        };
        owned = value;
        node = OracleNode::Value(Cow::Owned(owned), field);
    }
    let OracleNode::Value(value, field) = node else {
        return None;
    };
    Some(text(&value, field.as_ref()))
}

fn text(value: &Value, field: Option<&FieldDescriptor>) -> String {
    let mut out = String::new();
    match value {
        Value::Bool(value) => return value.to_string(),
        Value::I32(value) => return value.to_string(),
        Value::I64(value) => return value.to_string(),
        Value::U32(value) => return value.to_string(),
        Value::U64(value) => return value.to_string(),
        Value::F32(value) => append_float(*value, &mut out),
        Value::F64(value) => append_double(*value, &mut out),
        Value::String(text) => return text.clone(),
        Value::Bytes(bytes) => return String::from_utf8_lossy(bytes).into_owned(),
        Value::EnumNumber(number) => {
            let Some(Kind::Enum(values)) = field.map(FieldDescriptor::kind) else {
                panic!("an enum");
            };
            // Of two names the first one: `get_value` may return either.
            let first = values.values().find(|value| value.number() == *number);
            return match first {
                Some(value) if *number != 1 || values.name() != "Color" => value.name().to_owned(),
                Some(_) => "RED".to_owned(),
                None => format!("UNKNOWN_ENUM_VALUE_{}_{number}", values.name()),
            };
        }
        Value::Message(_) | Value::List(_) | Value::Map(_) => panic!("a path to a scalar"),
    }
    out
}

fn descriptor() -> MessageDescriptor {
    let pool = DescriptorPool::decode(SAMPLE_SET).expect("a descriptor set");
    let found = pool.get_message_by_name("weir.sample.Everything");
    found.expect("the message")
}

fn compare(bytes: &[u8], descriptor: &MessageDescriptor) -> Result<(), TestCaseError> {
    let oracle = DynamicMessage::decode(descriptor.clone(), bytes);
    let message = message("weir.sample.Everything");
    let oracle = oracle.map_err(|error| TestCaseError::fail(error.to_string()))?;
    for path in PATHS {
        for check in [JsonCheck::Needed, JsonCheck::Whole] {
            let found = match find(&message, bytes, path, check) {
                FoundValue::Scalar(text) => Some(text),
                FoundValue::Missing(_) => None,
                other => return Err(TestCaseError::fail(format!("{path}: {other:?}"))),
            };
            prop_assert_eq!(found, expected(&oracle, path), "{}", path);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn values_match_prost_reflect(parts in vec(part(), 0..12)) {
        let mut bytes = Vec::new();
        for part in &parts {
            write(part, &mut bytes);
        }
        compare(&bytes, &descriptor())?;
    }
}
