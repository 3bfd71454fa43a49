//! Description of values: schema, fields, size and frame.

use std::sync::Arc;

use super::fields::{FieldNames, FieldType, SlotFields};
use super::writer::{RecordWriter, WriteFault};
use super::{avro, json, protobuf};
use crate::error::{LoadError, Result};
use crate::value_schema::{ParsedSchema, RecordFormat, ValueSchema};

/// Description of the values of a schema.
#[derive(Debug, Clone)]
pub struct RecordSpec {
    schema: ValueSchema,
    fields: SlotFields,
    /// Size of each value; `None`: texts have their usual length.
    pub(super) size: Option<usize>,
    /// Bytes before each value, for a schema registry.
    frame: Arc<[u8]>,
}

impl RecordSpec {
    /// Returns the description of values without a frame.
    ///
    /// # Errors
    /// The schema has no such fields.
    pub fn new(schema: ValueSchema, names: &FieldNames, size: Option<usize>) -> Result<Self> {
        let fields = match &schema.parsed {
            ParsedSchema::Avro(parsed) => {
                let text = schema.text.as_deref().unwrap_or_default();
                SlotFields::new(names, &|name| avro::field_type(parsed, text, name))?
            }
            ParsedSchema::Protobuf { message, .. } => {
                SlotFields::new(names, &|name| protobuf::field_type(message, name))?
            }
            ParsedSchema::Json => {
                SlotFields::new(&FieldNames::default(), &|_| Some(FieldType::Text))?
            }
        };
        Ok(Self {
            schema,
            fields,
            size,
            frame: Arc::default(),
        })
    }

    /// Returns the description of the built-in values of a language, without a frame.
    pub fn built_in(format: RecordFormat, size: Option<usize>) -> Self {
        let spec = Self::new(ValueSchema::built_in(format), &FieldNames::default(), size);
        // Invariant: no field is named, so none can be missing.
        spec.expect("the usual fields")
    }

    /// Sets the bytes before each value.
    pub(crate) fn with_frame(mut self, frame: Vec<u8>) -> Self {
        self.frame = frame.into();
        self
    }

    /// Returns the schema.
    pub(crate) fn schema(&self) -> &ValueSchema {
        &self.schema
    }

    pub(super) fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Returns `true` if values have a timestamp as text, which can be marked.
    pub(crate) fn has_time_text(&self) -> bool {
        self.fields.has_time_text()
    }

    /// Writes a record with random content.
    pub(super) fn write(&self, writer: &mut RecordWriter<'_>) -> Result<(), WriteFault> {
        match &self.schema.parsed {
            ParsedSchema::Avro(schema) => avro::write(schema, &self.fields, writer),
            ParsedSchema::Protobuf { message, .. } => {
                protobuf::write(message, &self.fields, writer)
            }
            ParsedSchema::Json => json::write(writer),
        }
    }

    pub(super) fn usual_text_len(&self) -> usize {
        match self.schema.is_built_in() {
            true => BUILT_IN_TEXT_LEN,
            false => TEXT_LEN_USUAL,
        }
    }

    pub(super) fn error(&self, fault: WriteFault) -> LoadError {
        let reason = match fault {
            WriteFault::Recursive(name) => {
                format!("{name} contains itself in every value; make the inner one optional")
            }
            WriteFault::Schema(reason) => reason,
        };
        LoadError::option("--schema", &self.schema.origin, reason)
    }
}

/// Characters of the filler of the published kinds.
const BUILT_IN_TEXT_LEN: usize = 512;
/// Characters of each text of other schemas.
const TEXT_LEN_USUAL: usize = 16;
