//! Compiled schema: messages, fields and enums in vectors, linked by their positions.

use std::collections::HashMap;
use std::sync::Arc;

pub(in crate::protobuf) type MessageId = u32;
pub(in crate::protobuf) type EnumId = u32;

/// All types of a schema.
#[derive(Debug, Default)]
pub(in crate::protobuf) struct Types {
    pub(in crate::protobuf) messages: Vec<MessageType>,
    pub(in crate::protobuf) enums: Vec<EnumType>,
    /// Messages by full name.
    pub(in crate::protobuf) by_name: HashMap<Arc<str>, MessageId>,
    /// Messages by name without package; `None` if several packages have the name.
    pub(in crate::protobuf) by_short_name: HashMap<Box<str>, Option<MessageId>>,
    /// Messages at the top level of the main file, in its order.
    pub(in crate::protobuf) top: Vec<MessageId>,
}

impl Types {
    pub(in crate::protobuf) fn message(&self, id: MessageId) -> &MessageType {
        &self.messages[id as usize]
    }

    pub(in crate::protobuf) fn enumeration(&self, id: EnumId) -> &EnumType {
        &self.enums[id as usize]
    }
}

/// A message type.
#[derive(Debug)]
pub(in crate::protobuf) struct MessageType {
    /// Full name without a leading dot.
    pub(in crate::protobuf) name: Arc<str>,
    /// Fields, ordered by number.
    pub(in crate::protobuf) fields: Box<[Field]>,
    /// Positions in `fields`, in the order of the declarations.
    pub(in crate::protobuf) declared: Box<[u32]>,
    /// Messages declared inside, without the types of maps and groups.
    pub(in crate::protobuf) nested: Box<[MessageId]>,
    pub(in crate::protobuf) oneof_count: u32,
    pub(in crate::protobuf) has_required: bool,
}

impl MessageType {
    /// Returns the position in `fields` of the field with a number.
    pub(in crate::protobuf) fn find(&self, number: u32) -> Option<usize> {
        let found = self.fields.binary_search_by_key(&number, |f| f.number);
        found.ok()
    }

    pub(in crate::protobuf) fn field(&self, number: u32) -> Option<&Field> {
        self.find(number).map(|index| &self.fields[index])
    }
}

/// A field of a message.
#[derive(Debug)]
pub(in crate::protobuf) struct Field {
    pub(in crate::protobuf) number: u32,
    pub(in crate::protobuf) name: Arc<str>,
    pub(in crate::protobuf) kind: FieldKind,
    pub(in crate::protobuf) is_repeated: bool,
    pub(in crate::protobuf) is_required: bool,
    /// A value equal to the default counts as set.
    pub(in crate::protobuf) has_presence: bool,
    /// A string that is malformed UTF-8 is an error.
    pub(in crate::protobuf) checks_encoding: bool,
    /// Number of the oneof, from 0 in each message.
    pub(in crate::protobuf) oneof: Option<u32>,
    /// Value of a scalar that is not set, as text.
    pub(in crate::protobuf) default: Box<str>,
}

/// Type of a field or of an element of a repeated field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::protobuf) enum FieldKind {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
    Enum(EnumId),
    Message(MessageId),
    Group(MessageId),
    /// A map; the message type is that of its entries, with fields 1 and 2.
    Map(MessageId),
}

impl FieldKind {
    /// Returns the wire type of a single value.
    pub(in crate::protobuf) fn wire(self) -> u8 {
        use super::super::wire;
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => wire::FIXED64,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => wire::FIXED32,
            Self::String | Self::Bytes | Self::Message(_) | Self::Map(_) => wire::BYTES,
            Self::Group(_) => wire::GROUP_START,
            _ => wire::VARINT,
        }
    }

    /// Returns `true` for numbers, booleans and enums, of which one length can hold several.
    pub(in crate::protobuf) fn is_packable(self) -> bool {
        use super::super::wire::{FIXED32, FIXED64, VARINT};
        matches!(self.wire(), VARINT | FIXED32 | FIXED64)
    }
}

/// An enum type.
#[derive(Debug)]
pub(in crate::protobuf) struct EnumType {
    /// Name without package and outer messages.
    pub(in crate::protobuf) short_name: Box<str>,
    /// First name of each number, ordered by number.
    pub(in crate::protobuf) values: Box<[(i32, Box<str>)]>,
    /// Further names of numbers that have one already.
    pub(in crate::protobuf) aliases: Box<[Box<str>]>,
    /// Name that was declared first, the default.
    pub(in crate::protobuf) first: Box<str>,
    /// Values without a name count as unknown fields.
    pub(in crate::protobuf) is_closed: bool,
}

impl EnumType {
    /// Returns the name of a number.
    pub(in crate::protobuf) fn name(&self, number: i32) -> Option<&str> {
        let found = self.values.binary_search_by_key(&number, |(n, _)| *n);
        found.ok().map(|index| &*self.values[index].1)
    }
}
