//! Values of the fields of a decoded message.

use std::borrow::Cow;

use super::definition::{FieldDefinition, FieldKind, StructDefinition};

/// Value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// The field does not exist in this version.
    Absent,
    /// An integer, a boolean as 0 or 1, or the bits of a floating-point number.
    Int(i64),
    /// A UUID.
    Uuid(u128),
    /// Text or bytes.
    Bytes(Option<Cow<'a, [u8]>>),
    /// Array of numbers or UUIDs, encoded as in the message.
    Packed(Option<Cow<'a, [u8]>>),
    /// Array of strings.
    Texts(Option<Vec<Cow<'a, [u8]>>>),
    /// Array of structures.
    Rows(Option<Vec<MessageRow<'a>>>),
    /// A structure.
    Row(Option<Box<MessageRow<'a>>>),
}

/// A structure: one value per field of its definition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MessageRow<'a> {
    /// Values in the order of the definition.
    pub values: Vec<Value<'a>>,
    /// Unknown tagged fields: tag and content.
    pub(super) unknown: Vec<(u32, Cow<'a, [u8]>)>,
}

static ABSENT: Value<'static> = Value::Absent;

impl<'a> MessageRow<'a> {
    /// Returns a structure with the default of each field of a version.
    pub fn new(definition: &StructDefinition, version: i16) -> Self {
        let fields = definition.fields.iter();
        Self {
            values: fields
                .map(|field| Value::of_default(field, version))
                .collect(),
            unknown: Vec::new(),
        }
    }

    /// Returns the value of a field, `Absent` if there is no such field.
    pub fn get(&self, definition: &StructDefinition, name: &str) -> &Value<'a> {
        let value = definition.position(name).and_then(|at| self.values.get(at));
        value.unwrap_or(&ABSENT)
    }

    /// Returns the value of a field for changing it; `None` if the version does not have the field.
    pub fn get_mut(&mut self, definition: &StructDefinition, name: &str) -> Option<&mut Value<'a>> {
        let value = self.values.get_mut(definition.position(name)?)?;
        (*value != Value::Absent).then_some(value)
    }

    /// Replaces the value of a field, if it exists in this version.
    pub fn set(&mut self, definition: &StructDefinition, name: &str, new: Value<'a>) {
        if let Some(value) = self.get_mut(definition, name) {
            *value = new;
        }
    }

    /// Returns a copy without borrowed parts.
    pub fn into_owned(self) -> MessageRow<'static> {
        let unknown = self.unknown.into_iter();
        MessageRow {
            values: self.values.into_iter().map(Value::into_owned).collect(),
            unknown: unknown
                .map(|(tag, content)| (tag, owned(content)))
                .collect(),
        }
    }
}

fn owned(bytes: Cow<'_, [u8]>) -> Cow<'static, [u8]> {
    Cow::Owned(bytes.into_owned())
}

impl<'a> Value<'a> {
    pub(super) fn of_default(field: &FieldDefinition, version: i16) -> Self {
        if !field.versions.contains(&version) {
            return Self::Absent;
        }
        let is_null = field.is_null_by_default;
        match &field.kind {
            FieldKind::Struct(_) if field.is_array => Self::Rows((!is_null).then(Vec::new)),
            FieldKind::Struct(structure) => {
                let row = || Box::new(MessageRow::new(structure, version));
                Self::Row((!is_null).then(row))
            }
            FieldKind::Text if field.is_array => Self::Texts((!is_null).then(Vec::new)),
            _ if field.is_array => Self::Packed((!is_null).then(Cow::default)),
            FieldKind::Text | FieldKind::Bytes => Self::Bytes((!is_null).then(Cow::default)),
            FieldKind::Uuid => Self::Uuid(0),
            _ => Self::Int(field.default),
        }
    }

    /// Returns the value as text; `None` if it is not UTF-8 or not bytes.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Bytes(Some(bytes)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the number, or 0 if the value is not a number.
    pub fn as_int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            _ => 0,
        }
    }

    /// Returns the UUID, or 0 if the value is not a UUID.
    pub fn as_uuid(&self) -> u128 {
        match self {
            Self::Uuid(id) => *id,
            _ => 0,
        }
    }

    /// Returns the elements of an array of structures; empty if it is null or of another type.
    pub fn rows(&self) -> &[MessageRow<'a>] {
        match self {
            Self::Rows(Some(rows)) => rows,
            _ => &[],
        }
    }

    /// Returns the elements of an array of strings; empty if it is null or of another type.
    pub fn texts(&self) -> &[Cow<'a, [u8]>] {
        match self {
            Self::Texts(Some(texts)) => texts,
            _ => &[],
        }
    }

    /// Returns `true` if the value is null, or the version does not have the field.
    pub fn is_none(&self) -> bool {
        matches!(
            self,
            Self::Absent
                | Self::Bytes(None)
                | Self::Packed(None)
                | Self::Texts(None)
                | Self::Rows(None)
                | Self::Row(None)
        )
    }

    /// Returns the elements of an array of 32-bit integers; empty if it is null or of another type.
    pub fn numbers(&self) -> impl Iterator<Item = i64> {
        let bytes = match self {
            Self::Packed(Some(bytes)) => &bytes[..],
            _ => &[],
        };
        let chunks = bytes.chunks_exact(4);
        chunks.map(|four| {
            i64::from(
                four.iter()
                    .fold(0, |number, byte| number << 8 | i32::from(*byte)),
            )
        })
    }

    /// Returns a copy without borrowed parts.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Absent => Value::Absent,
            Self::Int(number) => Value::Int(number),
            Self::Uuid(id) => Value::Uuid(id),
            Self::Bytes(bytes) => Value::Bytes(bytes.map(owned)),
            Self::Packed(bytes) => Value::Packed(bytes.map(owned)),
            Self::Texts(texts) => {
                Value::Texts(texts.map(|texts| texts.into_iter().map(owned).collect()))
            }
            Self::Rows(rows) => {
                Value::Rows(rows.map(|rows| rows.into_iter().map(MessageRow::into_owned).collect()))
            }
            Self::Row(row) => Value::Row(row.map(|row| Box::new(row.into_owned()))),
        }
    }
}
