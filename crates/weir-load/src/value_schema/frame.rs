//! Frames of values: how a value names its schema in a Confluent-compatible registry.

use super::{ParsedSchema, RecordFormat, ValueSchema};
use crate::error::{LoadError, Result};
use crate::varint::{push_varint, zigzag};

/// Returns the bytes before each value: magic byte, schema id, and for Protobuf the position of the
/// message type.
///
/// # Errors
/// The message type belongs to an imported file.
pub(crate) fn frame(schema: &ValueSchema, id: i32) -> Result<Vec<u8>> {
    let mut frame = vec![MAGIC_NUMBER];
    frame.extend(id.to_be_bytes());
    if let ParsedSchema::Protobuf { schema, message } = &schema.parsed {
        let Some(indexes) = schema.indexes_of(message) else {
            let reason = "a type of an imported file has no position in the schema; name one of \
                 the file itself";
            return Err(LoadError::option("--message", &message.name(), reason));
        };
        match indexes.as_slice() {
            // The short form of the first message.
            [0] => frame.push(0),
            indexes => {
                push_varint(zigzag(indexes.len() as i64), &mut frame);
                for index in indexes {
                    push_varint(zigzag((*index).into()), &mut frame);
                }
            }
        }
    }
    Ok(frame)
}

/// Returns the value after its frame; `None` if it has no valid one.
pub(crate) fn unframed(value: &[u8], format: RecordFormat) -> Option<&[u8]> {
    let (magic, rest) = value.split_first()?;
    let mut rest = match *magic {
        MAGIC_NUMBER => rest.get(NUMBER_BYTES..)?,
        MAGIC_GUID => rest.get(GUID_BYTES..)?,
        _ => return None,
    };
    if format == RecordFormat::Protobuf {
        let count = skip_varint(&mut rest)? >> 1;
        for _ in 0..Some(count).filter(|count| *count <= INDEXES_MAX)? {
            skip_varint(&mut rest)?;
        }
    }
    Some(rest)
}

/// Reads a varint of at most 32 bits.
fn skip_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for position in 0..5 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

const MAGIC_NUMBER: u8 = 0;
const MAGIC_GUID: u8 = 1;
const NUMBER_BYTES: usize = 4;
const GUID_BYTES: usize = 16;
/// Maximum nesting of message types.
const INDEXES_MAX: u64 = 64;
