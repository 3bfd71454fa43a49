//! Structure of message types, for programs that write messages.

use std::sync::Arc;

use super::schema::types::{Field, FieldKind, MessageId};
use super::{ProtobufMessage, ProtobufSchema};

/// A field of a message type.
#[derive(Debug)]
pub struct ProtobufField<'a> {
    /// Name as declared.
    pub name: &'a str,
    /// Field number.
    pub number: u32,
    /// Type of a value, or of each element of a repeated field.
    pub shape: ProtobufShape<'a>,
    /// A list or a map.
    pub is_repeated: bool,
    /// Messages without the field are malformed (proto2).
    pub is_required: bool,
    /// Number of the oneof that contains the field.
    pub oneof: Option<u32>,
}

/// Type of a field, by its form on the wire.
#[derive(Debug)]
pub enum ProtobufShape<'a> {
    /// `bool`.
    Bool,
    /// `int32` and `int64`, negative numbers in 64 bits; with the number of bits.
    Int(u32),
    /// `uint32` and `uint64`, with the number of bits.
    Uint(u32),
    /// `sint32` and `sint64`, in zigzag form, with the number of bits.
    Sint(u32),
    /// `float`, `fixed32` and `sfixed32`.
    Fixed32,
    /// `fixed64` and `sfixed64`.
    Fixed64,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// Numbers of an enum, in ascending order.
    Enum(Vec<i32>),
    /// A message with its length.
    Message(ProtobufMessageRef<'a>),
    /// A message between a start and an end tag.
    Group(ProtobufMessageRef<'a>),
    /// A list of messages with the fields 1, the key, and 2, the value.
    Map(ProtobufMessageRef<'a>),
}

/// A message type used by a field.
#[derive(Debug, Clone, Copy)]
pub struct ProtobufMessageRef<'a> {
    message: &'a ProtobufMessage,
    id: MessageId,
}

impl ProtobufMessage {
    /// Returns the type in the form in which fields refer to it.
    pub fn type_ref(&self) -> ProtobufMessageRef<'_> {
        ProtobufMessageRef {
            message: self,
            id: self.id,
        }
    }
}

impl ProtobufSchema {
    /// Returns the position of a message of the main file, as in [`message_at`](Self::message_at);
    /// `None` if it belongs to an imported file.
    pub fn indexes_of(&self, message: &ProtobufMessage) -> Option<Vec<i32>> {
        let mut open: Vec<(Vec<i32>, MessageId)> = Vec::new();
        let push = |open: &mut Vec<(Vec<i32>, MessageId)>, path: &[i32], siblings: &[MessageId]| {
            for (index, id) in siblings.iter().enumerate() {
                let index = i32::try_from(index).unwrap_or(i32::MAX);
                open.push(([path, &[index]].concat(), *id));
            }
        };
        push(&mut open, &[], &self.types.top);
        while let Some((path, id)) = open.pop() {
            if id == message.id && Arc::ptr_eq(&self.types, &message.types) {
                return Some(path);
            }
            push(&mut open, &path, &self.types.message(id).nested);
        }
        None
    }
}

impl<'a> ProtobufMessageRef<'a> {
    /// Returns a number that is equal for all uses of the message type.
    pub fn id(self) -> u32 {
        self.id
    }

    /// Returns the full name.
    pub fn name(self) -> &'a str {
        &self.message.types.message(self.id).name
    }

    /// Returns the fields in the order of their declarations.
    pub fn fields(self) -> impl Iterator<Item = ProtobufField<'a>> {
        let message = self.message.types.message(self.id);
        let declared = message.declared.iter();
        declared.map(move |index| self.field(&message.fields[*index as usize]))
    }

    fn field(self, field: &'a Field) -> ProtobufField<'a> {
        ProtobufField {
            name: &field.name,
            number: field.number,
            shape: self.shape(field.kind),
            is_repeated: field.is_repeated,
            is_required: field.is_required,
            oneof: field.oneof,
        }
    }

    fn shape(self, kind: FieldKind) -> ProtobufShape<'a> {
        let of = |id| Self {
            message: self.message,
            id,
        };
        match kind {
            FieldKind::Bool => ProtobufShape::Bool,
            FieldKind::Int32 => ProtobufShape::Int(32),
            FieldKind::Int64 => ProtobufShape::Int(64),
            FieldKind::Uint32 => ProtobufShape::Uint(32),
            FieldKind::Uint64 => ProtobufShape::Uint(64),
            FieldKind::Sint32 => ProtobufShape::Sint(32),
            FieldKind::Sint64 => ProtobufShape::Sint(64),
            FieldKind::Float | FieldKind::Fixed32 | FieldKind::Sfixed32 => ProtobufShape::Fixed32,
            FieldKind::Fixed64 | FieldKind::Sfixed64 => ProtobufShape::Fixed64,
            FieldKind::Double => ProtobufShape::Double,
            FieldKind::String => ProtobufShape::String,
            FieldKind::Bytes => ProtobufShape::Bytes,
            FieldKind::Enum(id) => {
                let values = self.message.types.enumeration(id).values.iter();
                ProtobufShape::Enum(values.map(|(number, _)| *number).collect())
            }
            FieldKind::Message(id) => ProtobufShape::Message(of(id)),
            FieldKind::Group(id) => ProtobufShape::Group(of(id)),
            FieldKind::Map(id) => ProtobufShape::Map(of(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_positions_match_text() {
        let text = "syntax = \"proto3\"; package p;
            message First { string a = 1; }
            message Second { message Inner { sint64 x = 3; }
              Inner inner = 2; map<string, int32> counts = 1; fixed64 at = 9; }";
        let schema = ProtobufSchema::parse_proto(text, &[]).expect("a schema");
        let inner = schema.message("p.Second.Inner").expect("a message");
        assert_eq!(schema.indexes_of(&inner), Some(vec![1, 0]));
        let found = schema.message_at(&[1, 0]).expect("a message");
        assert_eq!(found.name(), inner.name());
        let second = schema.message("Second").expect("a message");
        let fields: Vec<_> = second.type_ref().fields().collect();
        let names: Vec<_> = fields
            .iter()
            .map(|field| (field.name, field.number))
            .collect();
        assert_eq!(names, [("inner", 2), ("counts", 1), ("at", 9)]);
        let ProtobufShape::Message(of) = fields[0].shape else {
            panic!("a message");
        };
        assert_eq!(of.name(), "p.Second.Inner");
        assert!(matches!(fields[1].shape, ProtobufShape::Map(_)) && fields[1].is_repeated);
        assert!(matches!(fields[2].shape, ProtobufShape::Fixed64));
        let other = ProtobufSchema::parse_proto(text, &[]).expect("a schema");
        assert_eq!(other.indexes_of(&inner), None);
    }
}
