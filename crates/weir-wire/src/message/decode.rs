//! Decoding of messages into values.

use std::borrow::Cow;

use super::definition::{FieldDefinition, FieldKind, StructDefinition};
use super::value::{MessageRow, Value};
use crate::WireError;
use crate::reader::WireReader;

/// Decodes the body of a message of this version, which must end with it.
pub fn decode<'a>(
    definition: &StructDefinition,
    version: i16,
    is_flexible: bool,
    body: &'a [u8],
) -> Result<MessageRow<'a>, WireError> {
    let mut decoder = Decoder {
        reader: WireReader::new(body),
        version,
        is_flexible,
        values_left: VALUES_MAX,
    };
    let row = decoder.structure(definition)?;
    match decoder.reader.rest().len() {
        0 => Ok(row),
        left => Err(WireError::Length {
            what: "bytes after the message",
            value: left as i64,
        }),
    }
}

/// Maximum number of values in one message; they take about 40 bytes each.
const VALUES_MAX: usize = 1_000_000;

struct Decoder<'a> {
    reader: WireReader<'a>,
    version: i16,
    is_flexible: bool,
    values_left: usize,
}

impl<'a> Decoder<'a> {
    fn structure(&mut self, definition: &StructDefinition) -> Result<MessageRow<'a>, WireError> {
        self.claim(definition.fields.len())?;
        let mut row = MessageRow {
            values: Vec::with_capacity(definition.fields.len()),
            unknown: Vec::new(),
        };
        for field in &definition.fields {
            row.values.push(match field.tag {
                // Tagged fields are absent unless they follow.
                Some(_) => Value::of_default(field, self.version),
                None if !field.versions.contains(&self.version) => Value::Absent,
                None => self.field(field)?,
            });
        }
        if self.is_flexible {
            self.tags(definition, &mut row)?;
        }
        Ok(row)
    }

    fn claim(&mut self, values: usize) -> Result<(), WireError> {
        let left = self.values_left.checked_sub(values);
        self.values_left = left.ok_or(WireError::Length {
            what: "values in the message",
            value: VALUES_MAX as i64,
        })?;
        Ok(())
    }

    fn tags(
        &mut self,
        definition: &StructDefinition,
        row: &mut MessageRow<'a>,
    ) -> Result<(), WireError> {
        for _ in 0..self.reader.uvarint("tags")? {
            self.claim(1)?;
            let tag = self.reader.uvarint("tag")?;
            let bytes = self.reader.uvarint("tag size")?;
            let content = self.reader.bytes(bytes as usize, "tag")?;
            let is_tagged = |field: &FieldDefinition| {
                field.tag == Some(tag) && field.versions.contains(&self.version)
            };
            let Some(at) = definition.fields.iter().position(is_tagged) else {
                row.unknown.push((tag, Cow::Borrowed(content)));
                continue;
            };
            let outer = std::mem::replace(&mut self.reader, WireReader::new(content));
            row.values[at] = self.field(&definition.fields[at])?;
            let inner = std::mem::replace(&mut self.reader, outer);
            if !inner.rest().is_empty() {
                return Err(WireError::Length {
                    what: "bytes after a tagged field",
                    value: inner.rest().len() as i64,
                });
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldDefinition) -> Result<Value<'a>, WireError> {
        let value = match field.is_array {
            true => self.array(field)?,
            false => self.single(field)?,
        };
        match value.is_none() && !field.is_nullable {
            true => Err(WireError::Length {
                what: field.name,
                value: -1,
            }),
            false => Ok(value),
        }
    }

    fn single(&mut self, field: &FieldDefinition) -> Result<Value<'a>, WireError> {
        let what = field.name;
        let reader = &mut self.reader;
        Ok(match &field.kind {
            FieldKind::Bool | FieldKind::I8 => Value::Int(reader.i8(what)?.into()),
            FieldKind::I16 => Value::Int(reader.i16(what)?.into()),
            FieldKind::U16 => Value::Int((reader.i16(what)? as u16).into()),
            FieldKind::I32 => Value::Int(reader.i32(what)?.into()),
            FieldKind::I64 | FieldKind::F64 => Value::Int(reader.i64(what)?),
            FieldKind::Uuid => Value::Uuid(uuid(reader.bytes(16, what)?)),
            FieldKind::Text => Value::Bytes(self.text(what)?.map(Cow::Borrowed)),
            FieldKind::Bytes => {
                let bytes = match self.is_flexible {
                    true => reader.compact_bytes(what)?,
                    false => reader.nullable_bytes(what)?,
                };
                Value::Bytes(bytes.map(Cow::Borrowed))
            }
            FieldKind::Struct(structure) => {
                if field.is_nullable && reader.i8(what)? < 0 {
                    return Ok(Value::Row(None));
                }
                Value::Row(Some(Box::new(self.structure(structure)?)))
            }
        })
    }

    fn text(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        match self.is_flexible {
            true => self.reader.compact_bytes(what),
            false => self.reader.short_bytes(what),
        }
    }

    fn array(&mut self, field: &FieldDefinition) -> Result<Value<'a>, WireError> {
        let what = field.name;
        let count = self.count(field)?;
        Ok(match &field.kind {
            FieldKind::Struct(structure) => Value::Rows(match count {
                Some(count) => {
                    // The count may be large and wrong, so memory grows with what is read.
                    let mut rows = Vec::new();
                    for _ in 0..count {
                        rows.push(self.structure(structure)?);
                    }
                    Some(rows)
                }
                None => None,
            }),
            FieldKind::Text | FieldKind::Bytes => Value::Texts(match count {
                Some(count) => {
                    self.claim(count)?;
                    let mut texts = Vec::new();
                    for _ in 0..count {
                        let text = self.text(what)?;
                        let text = text.ok_or(WireError::Length { what, value: -1 })?;
                        texts.push(Cow::Borrowed(text));
                    }
                    Some(texts)
                }
                None => None,
            }),
            kind => Value::Packed(match (count, kind.fixed_bytes()) {
                (Some(count), Some(size)) => {
                    let bytes = self.reader.bytes(count.saturating_mul(size), what)?;
                    Some(Cow::Borrowed(bytes))
                }
                _ => None,
            }),
        })
    }

    /// Reads the count of an array, which is at most the number of remaining bytes, or `None` for
    /// null.
    fn count(&mut self, field: &FieldDefinition) -> Result<Option<usize>, WireError> {
        let what = field.name;
        let value = match self.is_flexible {
            true => i64::from(self.reader.uvarint(what)?) - 1,
            false => i64::from(self.reader.i32(what)?),
        };
        if value == -1 {
            return Ok(None);
        }
        let count = usize::try_from(value).ok();
        // Every element has at least one byte.
        let count = count.filter(|count| *count <= self.reader.rest().len());
        count.map(Some).ok_or(WireError::Length { what, value })
    }
}

fn uuid(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |id, byte| id << 8 | u128::from(*byte))
}
