//! Finds one field of Avro and Protobuf values.

use weir_formats::avro::AvroExtractor;
use weir_formats::protobuf::ProtobufExtractor;

use super::{ParsedSchema, RecordFormat, ValueSchema, unframed};
use crate::error::{LoadError, Result};

/// Reader of the text of one field.
#[derive(Debug)]
pub(crate) struct DocumentReader {
    extractor: Extractor,
    is_framed: bool,
    text: String,
}

#[derive(Debug)]
enum Extractor {
    Avro(AvroExtractor),
    Protobuf(ProtobufExtractor),
}

/// Reason why a value has no such field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentFault {
    Unframed,
    Undecodable,
    Missing,
}

impl DocumentFault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Unframed => "value without the frame of a schema registry",
            Self::Undecodable => "value that does not match its schema",
            Self::Missing => "value without the field of its time",
        }
    }
}

impl DocumentReader {
    /// Reads the field at `path`, for example `weir` or `header.at`.
    ///
    /// # Errors
    /// The path is malformed, or the schema is one of JSON.
    pub(crate) fn new(schema: &ValueSchema, path: &str, is_framed: bool) -> Result<Self> {
        let invalid = |reason: String| LoadError::option("--latency-from", &path, reason);
        let full = format!("VALUE.{path}");
        let extractor = match &schema.parsed {
            ParsedSchema::Avro(schema) => Extractor::Avro(
                AvroExtractor::new(schema, &[&full]).map_err(|error| invalid(error.to_string()))?,
            ),
            ParsedSchema::Protobuf { message, .. } => Extractor::Protobuf(
                ProtobufExtractor::new(message, &[&full], false)
                    .map_err(|error| invalid(error.to_string()))?,
            ),
            ParsedSchema::Json => return Err(invalid("JSON has no fields".to_owned())),
        };
        Ok(Self {
            extractor,
            is_framed,
            text: String::new(),
        })
    }

    /// Returns the text of the field.
    pub(crate) fn read(&mut self, value: &[u8]) -> Result<&str, DocumentFault> {
        let format = match self.extractor {
            Extractor::Avro(_) => RecordFormat::Avro,
            Extractor::Protobuf(_) => RecordFormat::Protobuf,
        };
        let body = match self.is_framed {
            true => unframed(value, format).ok_or(DocumentFault::Unframed)?,
            false => value,
        };
        self.text.clear();
        let undecodable = DocumentFault::Undecodable;
        let found = match &mut self.extractor {
            Extractor::Avro(extractor) => {
                extractor.read(body, false).map_err(|_| undecodable)?;
                extractor.append(0, body, &mut self.text).ok()
            }
            Extractor::Protobuf(extractor) => {
                extractor.read(body).map_err(|_| undecodable)?;
                extractor.append(0, body, &mut self.text).ok()
            }
        };
        match found {
            Some(true) => Ok(&self.text),
            Some(false) | None => Err(DocumentFault::Missing),
        }
    }
}
