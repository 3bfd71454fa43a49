//! Encoding of messages from values.

use super::definition::{FieldDefinition, FieldKind, StructDefinition};
use super::value::{MessageRow, Value};
use crate::layout::{put_length, put_uvarint};

/// Appends the body of a message to `out`.
pub fn encode(
    row: &MessageRow<'_>,
    definition: &StructDefinition,
    version: i16,
    is_flexible: bool,
    out: &mut Vec<u8>,
) {
    let encoder = Encoder {
        version,
        is_flexible,
    };
    encoder.structure(row, definition, out);
}

#[derive(Clone, Copy)]
struct Encoder {
    version: i16,
    is_flexible: bool,
}

impl Encoder {
    fn structure(self, row: &MessageRow<'_>, definition: &StructDefinition, out: &mut Vec<u8>) {
        let fields = || definition.fields.iter().zip(&row.values);
        for (field, value) in fields().filter(|(field, _)| field.tag.is_none()) {
            self.field(field, value, out);
        }
        if !self.is_flexible {
            return;
        }
        let mut tags = Vec::new();
        for (field, value) in fields() {
            let is_default = || *value == Value::of_default(field, self.version);
            if let Some(tag) = field.tag.filter(|_| !is_default()) {
                let mut content = Vec::new();
                self.field(field, value, &mut content);
                tags.push((tag, content));
            }
        }
        let unknown = row.unknown.iter();
        tags.extend(unknown.map(|(tag, content)| (*tag, content.to_vec())));
        tags.sort_by_key(|(tag, _)| *tag);
        put_uvarint(out, tags.len() as u32);
        for (tag, content) in tags {
            put_uvarint(out, tag);
            put_uvarint(out, content.len() as u32);
            out.extend_from_slice(&content);
        }
    }

    fn field(self, field: &FieldDefinition, value: &Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Absent => {}
            Value::Int(number) => {
                let bytes = number.to_be_bytes();
                let size = field.kind.fixed_bytes().unwrap_or(bytes.len());
                out.extend_from_slice(&bytes[bytes.len() - size.min(bytes.len())..]);
            }
            Value::Uuid(id) => out.extend_from_slice(&id.to_be_bytes()),
            Value::Bytes(bytes) => match field.kind {
                FieldKind::Text => self.text(bytes.as_deref(), out),
                _ => {
                    self.length(bytes.as_ref().map(|bytes| bytes.len()), out);
                    out.extend_from_slice(bytes.as_deref().unwrap_or_default());
                }
            },
            Value::Packed(bytes) => {
                let size = field.kind.fixed_bytes().unwrap_or(1);
                self.length(bytes.as_ref().map(|bytes| bytes.len() / size), out);
                out.extend_from_slice(bytes.as_deref().unwrap_or_default());
            }
            Value::Texts(texts) => {
                self.length(texts.as_ref().map(Vec::len), out);
                for text in texts.iter().flatten() {
                    self.text(Some(text), out);
                }
            }
            Value::Rows(rows) => {
                self.length(rows.as_ref().map(Vec::len), out);
                for row in rows.iter().flatten() {
                    if let FieldKind::Struct(structure) = &field.kind {
                        self.structure(row, structure, out);
                    }
                }
            }
            Value::Row(row) => {
                if field.is_nullable {
                    out.push(if row.is_some() { 1 } else { 0xff });
                }
                if let (FieldKind::Struct(structure), Some(row)) = (&field.kind, row) {
                    self.structure(row, structure, out);
                }
            }
        }
    }

    fn text(self, text: Option<&[u8]>, out: &mut Vec<u8>) {
        match (self.is_flexible, text) {
            (true, _) => self.length(text.map(<[u8]>::len), out),
            (false, None) => out.extend_from_slice(&(-1_i16).to_be_bytes()),
            // Texts come from messages with the same limit, or from configuration.
            (false, Some(text)) => out.extend_from_slice(&(text.len() as i16).to_be_bytes()),
        }
        out.extend_from_slice(text.unwrap_or_default());
    }

    fn length(self, length: Option<usize>, out: &mut Vec<u8>) {
        match (length, self.is_flexible) {
            (Some(length), flexible) => put_length(out, flexible, length),
            (None, true) => out.push(0),
            (None, false) => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
    }
}
