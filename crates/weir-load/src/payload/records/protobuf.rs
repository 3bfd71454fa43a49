//! Writes messages of Protobuf schemas.

use weir_formats::protobuf::{ProtobufField, ProtobufMessage, ProtobufMessageRef, ProtobufShape};

use super::fields::{FieldType, NumberForm, SlotContent, SlotFields};
use super::writer::{ELEMENTS, RecordWriter, TextForm, WriteFault};
use crate::varint::{push_varint, zigzag};

/// Returns the type of a field of the message itself.
pub(super) fn field_type(message: &ProtobufMessage, name: &str) -> Option<FieldType> {
    let field = message
        .type_ref()
        .fields()
        .find(|field| field.name == name)?;
    Some(match field.shape {
        _ if field.is_repeated => FieldType::Other,
        ProtobufShape::String => FieldType::Text,
        ProtobufShape::Int(64) | ProtobufShape::Uint(64) => {
            FieldType::Number(NumberForm::Varint, None)
        }
        ProtobufShape::Sint(64) => FieldType::Number(NumberForm::Zigzag, None),
        ProtobufShape::Fixed64 => FieldType::Number(NumberForm::Fixed, None),
        _ => FieldType::Other,
    })
}

/// Writes a message.
pub(super) fn write(
    message: &ProtobufMessage,
    fields: &SlotFields,
    writer: &mut RecordWriter<'_>,
) -> Result<(), WriteFault> {
    MessageWriter { fields, writer }.message(message.type_ref())
}

struct MessageWriter<'a, 'w> {
    fields: &'a SlotFields,
    writer: &'a mut RecordWriter<'w>,
}

impl MessageWriter<'_, '_> {
    fn message(&mut self, of: ProtobufMessageRef<'_>) -> Result<(), WriteFault> {
        self.writer
            .enter(of.id(), || format!("message \"{}\"", of.name()))?;
        let is_top = self.writer.is_top();
        match of.name() {
            // Their numbers have limits.
            "google.protobuf.Timestamp" | "google.protobuf.Duration" => self.seconds(),
            // Its content has a type of its own.
            "google.protobuf.Any" => {}
            _ => self.fields(of, is_top)?,
        }
        self.writer.leave();
        Ok(())
    }

    fn fields(&mut self, of: ProtobufMessageRef<'_>, is_top: bool) -> Result<(), WriteFault> {
        let content = |field: &ProtobufField<'_>| match is_top {
            true => self.fields.content(field.name),
            false => None,
        };
        // Of a oneof, the field for times, stamps or keys is written, else the first one.
        let filled = of.fields().filter(|field| content(field).is_some());
        let mut oneofs: Vec<u32> = filled.filter_map(|field| field.oneof).collect();
        for field in of.fields() {
            match (self.slot_of(&field, is_top), field.oneof) {
                (Some(content), _) => self.filled(&field, content),
                (None, Some(oneof)) if oneofs.contains(&oneof) => {}
                (None, oneof) => {
                    let is_written = self.field(&field)?;
                    oneofs.extend(oneof.filter(|_| is_written));
                }
            }
        }
        Ok(())
    }

    fn slot_of(&self, field: &ProtobufField<'_>, is_top: bool) -> Option<SlotContent> {
        self.fields.content(field.name).filter(|_| is_top)
    }

    fn filled(&mut self, field: &ProtobufField<'_>, content: SlotContent) {
        let wire = match content {
            SlotContent::TimeNumber(NumberForm::Fixed, _) => FIXED64,
            SlotContent::TimeNumber(..) => VARINT,
            SlotContent::TimeText | SlotContent::Stamp | SlotContent::Key => BYTES,
        };
        self.tag(field.number, wire);
        self.writer.slot(content, TextForm::Protobuf);
    }

    /// Writes a field. Returns `false` if it was omitted because it contains its own message.
    fn field(&mut self, field: &ProtobufField<'_>) -> Result<bool, WriteFault> {
        let (mark, depth) = (self.writer.mark(), self.writer.depth());
        let elements = if field.is_repeated { ELEMENTS } else { 1 };
        for _ in 0..elements {
            match self.value(field) {
                Ok(()) => {}
                Err(WriteFault::Recursive(_)) if !field.is_required => {
                    self.writer.return_to(mark);
                    self.writer.leave_to(depth);
                    return Ok(false);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(true)
    }

    fn value(&mut self, field: &ProtobufField<'_>) -> Result<(), WriteFault> {
        self.writer.count()?;
        let number = field.number;
        match &field.shape {
            ProtobufShape::Bool => {
                let bit = self.writer.below(2) as u64;
                self.varint(number, bit);
            }
            ProtobufShape::Int(bits) => {
                let value = self.signed(*bits);
                self.varint(number, value as u64);
            }
            ProtobufShape::Uint(bits) => {
                let value = self.writer.random() >> (64 - bits);
                self.varint(number, value);
            }
            ProtobufShape::Sint(bits) => {
                let value = self.signed(*bits);
                self.varint(number, zigzag(value));
            }
            ProtobufShape::Enum(numbers) => {
                let index = self.writer.below(numbers.len());
                let value = numbers.get(index).copied().unwrap_or(0);
                self.varint(number, i64::from(value) as u64);
            }
            ProtobufShape::Fixed32 => {
                self.tag(number, FIXED32);
                self.writer.float();
            }
            ProtobufShape::Fixed64 => {
                self.tag(number, FIXED64);
                let value = self.writer.random();
                self.writer.out.extend(value.to_le_bytes());
            }
            ProtobufShape::Double => {
                self.tag(number, FIXED64);
                self.writer.double();
            }
            ProtobufShape::String | ProtobufShape::Bytes => {
                self.tag(number, BYTES);
                self.writer.text(TextForm::Protobuf)?;
            }
            ProtobufShape::Message(of) | ProtobufShape::Map(of) => {
                self.tag(number, BYTES);
                let outer = std::mem::take(&mut self.writer.out);
                let written = self.message(*of);
                let inner = std::mem::replace(&mut self.writer.out, outer);
                written?;
                push_varint(inner.len() as u64, &mut self.writer.out);
                self.writer.out.extend(inner);
            }
            ProtobufShape::Group(of) => {
                self.tag(number, GROUP_START);
                self.message(*of)?;
                self.tag(number, GROUP_END);
            }
        }
        Ok(())
    }

    /// Writes the fields of a time or duration.
    fn seconds(&mut self) {
        let seconds = self.writer.below(SECONDS_MAX) as u64;
        self.varint(1, seconds);
        let nanos = self.writer.below(NANOS_MAX) as u64;
        self.varint(2, nanos);
    }

    /// Returns a random number with sign.
    fn signed(&mut self, bits: u32) -> i64 {
        self.writer.random() as i64 >> (64 - bits)
    }

    fn varint(&mut self, number: u32, value: u64) {
        self.tag(number, VARINT);
        push_varint(value, &mut self.writer.out);
    }

    fn tag(&mut self, number: u32, wire: u32) {
        push_varint((number << 3 | wire).into(), &mut self.writer.out);
    }
}

const SECONDS_MAX: usize = 1 << 31;
const NANOS_MAX: usize = 1_000_000_000;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const GROUP_START: u32 = 3;
const GROUP_END: u32 = 4;
const FIXED32: u32 = 5;
