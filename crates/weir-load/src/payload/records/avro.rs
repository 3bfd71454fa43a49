//! Writes records of Avro schemas.

use serde_json::Value;
use weir_formats::avro::{AvroSchema, AvroShape, AvroTypeRef};

use super::fields::{FieldType, NumberForm, SlotContent, SlotFields, TimeUnit};
use super::writer::{ELEMENTS, RecordWriter, TextForm, WriteFault};
use crate::varint::{push_varint, zigzag};

/// Returns the type of a field of the record itself. `text` is the text of the schema.
pub(super) fn field_type(schema: &AvroSchema, text: &str, name: &str) -> Option<FieldType> {
    let AvroShape::Record(fields) = schema.record_type().shape() else {
        return None;
    };
    let (_, field) = fields.iter().find(|(own, _)| *own == name)?;
    let of = |shape: AvroShape<'_>| match shape {
        AvroShape::String => FieldType::Text,
        AvroShape::Long => FieldType::Number(NumberForm::Zigzag, unit(text, name)),
        _ => FieldType::Other,
    };
    Some(match field.shape() {
        AvroShape::Union(branches) => {
            let mut types = branches.iter().map(|branch| of(branch.shape()));
            types
                .find(|found| *found != FieldType::Other)
                .unwrap_or(FieldType::Other)
        }
        shape => of(shape),
    })
}

/// Returns the unit of a field with a logical type for times.
fn unit(text: &str, name: &str) -> Option<TimeUnit> {
    let schema: Value = serde_json::from_str(text).ok()?;
    let mut fields = schema["fields"].as_array()?.iter();
    let field = fields.find(|field| field["name"] == name)?;
    let branches = match &field["type"] {
        Value::Array(branches) => branches.as_slice(),
        one => std::slice::from_ref(one),
    };
    branches.iter().find_map(|branch| {
        let logical = branch["logicalType"].as_str()?;
        let logical = logical.strip_prefix("local-").unwrap_or(logical);
        match logical {
            "timestamp-millis" => Some(TimeUnit::Milliseconds),
            "timestamp-micros" => Some(TimeUnit::Microseconds),
            "timestamp-nanos" => Some(TimeUnit::Nanoseconds),
            _ => None,
        }
    })
}

/// Writes a record.
pub(super) fn write(
    schema: &AvroSchema,
    fields: &SlotFields,
    writer: &mut RecordWriter<'_>,
) -> Result<(), WriteFault> {
    let root = schema.record_type();
    if !matches!(root.shape(), AvroShape::Record(_)) {
        return Err(WriteFault::Schema(
            "it is not the schema of a record".to_owned(),
        ));
    }
    AvroWriter { fields, writer }.value(root)
}

struct AvroWriter<'a, 'w> {
    fields: &'a SlotFields,
    writer: &'a mut RecordWriter<'w>,
}

impl AvroWriter<'_, '_> {
    fn long(&mut self, number: i64) {
        push_varint(zigzag(number), &mut self.writer.out);
    }

    fn value(&mut self, of: AvroTypeRef<'_>) -> Result<(), WriteFault> {
        self.writer.count()?;
        match of.shape() {
            AvroShape::Null => {}
            AvroShape::Boolean => {
                let bit = self.writer.below(2) as u8;
                self.writer.out.push(bit);
            }
            AvroShape::Int => {
                let number = self.writer.random() as i32;
                self.long(number.into());
            }
            AvroShape::Long => {
                let number = self.writer.random() as i64;
                self.long(number);
            }
            AvroShape::Float => self.writer.float(),
            AvroShape::Double => self.writer.double(),
            AvroShape::Bytes | AvroShape::String => self.writer.text(TextForm::Avro)?,
            AvroShape::Fixed(size) => self.writer.characters(size)?,
            AvroShape::Enum(0) => {
                return Err(WriteFault::Schema("an enum has no symbols".to_owned()));
            }
            AvroShape::Enum(symbols) => {
                let symbol = self.writer.below(symbols);
                self.long(symbol as i64);
            }
            AvroShape::Record(fields) => {
                self.writer.enter(of.id(), || "a record".to_owned())?;
                for (name, field) in fields {
                    self.field(name, field)?;
                }
                self.writer.leave();
            }
            AvroShape::Array(item) => self.elements(|this| this.value(item))?,
            AvroShape::Map(value) => self.elements(|this| {
                this.writer.text(TextForm::Avro)?;
                this.value(value)
            })?,
            AvroShape::Union(branches) => self.union(&branches)?,
        }
        Ok(())
    }

    fn field(&mut self, name: &str, of: AvroTypeRef<'_>) -> Result<(), WriteFault> {
        let slot = match self.writer.is_top() {
            true => self.fields.content(name),
            false => None,
        };
        let Some(content) = slot else {
            return self.value(of);
        };
        if let AvroShape::Union(branches) = of.shape() {
            let is_own = |branch: &AvroTypeRef<'_>| match content {
                SlotContent::TimeNumber(..) => matches!(branch.shape(), AvroShape::Long),
                _ => matches!(branch.shape(), AvroShape::String),
            };
            let branch = branches.iter().position(is_own).unwrap_or(0);
            self.long(branch as i64);
        }
        self.writer.slot(content, TextForm::Avro);
        Ok(())
    }

    /// Writes elements in one block; none if they contain what contains them.
    fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), WriteFault>,
    ) -> Result<(), WriteFault> {
        let mark = self.writer.mark();
        let outside = self.writer.depth();
        self.writer.enter_unnamed()?;
        let inside = self.writer.depth();
        self.long(ELEMENTS as i64);
        for _ in 0..ELEMENTS {
            match element(self) {
                Ok(()) => {}
                Err(WriteFault::Recursive(_)) => {
                    self.writer.return_to(mark);
                    self.writer.leave_to(inside);
                    break;
                }
                Err(fault) => return Err(fault),
            }
        }
        self.writer.leave_to(outside);
        self.long(0);
        Ok(())
    }

    /// Writes the first branch other than null, or the first that does not contain itself.
    fn union(&mut self, branches: &[AvroTypeRef<'_>]) -> Result<(), WriteFault> {
        let is_null = |index: &usize| matches!(branches[*index].shape(), AvroShape::Null);
        let (null, others): (Vec<_>, Vec<_>) = (0..branches.len()).partition(is_null);
        let mut fault = WriteFault::Schema("a union has no branches".to_owned());
        let (mark, depth) = (self.writer.mark(), self.writer.depth());
        for index in others.into_iter().chain(null) {
            self.long(index as i64);
            match self.value(branches[index]) {
                Ok(()) => return Ok(()),
                Err(error @ WriteFault::Recursive(_)) => fault = error,
                Err(error) => return Err(error),
            }
            self.writer.return_to(mark);
            self.writer.leave_to(depth);
        }
        Err(fault)
    }
}
