//! Schemas of record values: read from files or built in, for programs that write records and for
//! those that find a time in them.

mod document;
mod file;
mod frame;
mod parsed;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use strum::{Display, IntoStaticStr};
use weir_formats::protobuf::ProtobufSchema;

use self::file::ValueSchemaError;
use crate::error::{LoadError, Result};

pub(crate) use document::{DocumentFault, DocumentReader};
pub(crate) use frame::{frame, unframed};
pub(crate) use parsed::ParsedSchema;

/// Language of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum RecordFormat {
    /// Avro.
    Avro,
    /// Protocol Buffers.
    Protobuf,
    /// JSON, with or without a JSON Schema.
    Json,
}

impl RecordFormat {
    /// Returns the name of the language at a schema registry.
    pub(crate) fn registry_name(self) -> &'static str {
        match self {
            Self::Avro => "AVRO",
            Self::Protobuf => "PROTOBUF",
            Self::Json => "JSON",
        }
    }

    /// Returns the text of the built-in schema.
    pub fn built_in(self) -> &'static str {
        match self {
            Self::Avro => include_str!("record.avsc"),
            Self::Protobuf => include_str!("record.proto"),
            Self::Json => include_str!("record.json"),
        }
    }
}

/// Options that select the schema of values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct SchemaArgs {
    /// Schema of Avro or Protobuf values [default: built in]
    ///
    /// An Avro schema (.avsc), or for Protobuf a .proto file, whose imports are found in its
    /// directory, or a descriptor set (any other ending).
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Protobuf message type of values [default: the first one of the schema]
    #[arg(long, value_name = "NAME", requires = "schema")]
    pub message: Option<String>,
}

/// Schema of values.
#[derive(Debug, Clone)]
pub struct ValueSchema {
    pub(crate) parsed: ParsedSchema,
    /// Text to register; `None` if it cannot be registered, with the reason.
    pub(crate) text: Result<Arc<str>, &'static str>,
    /// File, or a description of the built-in schema, for errors.
    pub(crate) origin: Arc<str>,
    is_built_in: bool,
}

impl ValueSchema {
    /// Returns the built-in schema of a language.
    pub fn built_in(format: RecordFormat) -> Self {
        let text = format.built_in();
        let parsed = match format {
            RecordFormat::Avro => file::avro(text),
            RecordFormat::Protobuf => {
                let schema = ProtobufSchema::parse_proto(text, &[]);
                schema
                    .map_err(ValueSchemaError::from)
                    .and_then(file::first_message)
            }
            RecordFormat::Json => Ok(ParsedSchema::Json),
        };
        Self {
            // Invariant: the built-in texts are valid; a test parses all.
            parsed: parsed.expect("a valid built-in schema"),
            text: Ok(text.into()),
            origin: format!("built-in {format} schema").into(),
            is_built_in: true,
        }
    }

    /// Returns the schema of a file, or the built-in one.
    ///
    /// # Errors
    /// The file cannot be read or is not a schema of the language.
    pub(crate) fn new(args: &SchemaArgs, format: RecordFormat) -> Result<Self> {
        if let (Some(message), true) = (&args.message, format != RecordFormat::Protobuf) {
            let reason = format!("{format} has no message types; omit it");
            return Err(LoadError::option("--message", message, reason));
        }
        let Some(path) = &args.schema else {
            return Ok(Self::built_in(format));
        };
        let shown = path.display().to_string();
        let invalid =
            |error: ValueSchemaError| LoadError::option("--schema", &shown, error.to_string());
        let (parsed, text) = match format {
            RecordFormat::Json => {
                return Err(invalid(ValueSchemaError::Json));
            }
            RecordFormat::Avro => {
                let text = file::text(path).map_err(invalid)?;
                (file::avro(&text).map_err(invalid)?, Ok(text.into()))
            }
            RecordFormat::Protobuf => {
                let (schema, text) = file::protobuf(path).map_err(invalid)?;
                let parsed = match &args.message {
                    None => file::first_message(schema).map_err(invalid)?,
                    Some(name) => file::named_message(schema, name)
                        .map_err(|error| LoadError::option("--message", name, error.to_string()))?,
                };
                (parsed, text)
            }
        };
        Ok(Self {
            parsed,
            text,
            origin: shown.into(),
            is_built_in: false,
        })
    }

    /// Returns the schema of an Avro text (0), a `.proto` text (1) or a descriptor set.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn of_bytes(
        choice: u8,
        bytes: &[u8],
    ) -> std::result::Result<Self, ValueSchemaError> {
        let text = std::str::from_utf8(bytes).map_err(|_| ValueSchemaError::NotText);
        let parsed = match (choice, &text) {
            (0, Ok(text)) => file::avro(text)?,
            (1, Ok(text)) => file::first_message(ProtobufSchema::parse_proto(text, &[])?)?,
            (0 | 1, Err(_)) => return Err(ValueSchemaError::NotText),
            _ => file::first_message(ProtobufSchema::from_descriptor_set(bytes)?)?,
        };
        Ok(Self {
            parsed,
            text: text.map(Into::into).map_err(|_| "no text"),
            origin: "given".into(),
            is_built_in: false,
        })
    }

    /// Returns the language.
    pub fn format(&self) -> RecordFormat {
        match self.parsed {
            ParsedSchema::Avro(_) => RecordFormat::Avro,
            ParsedSchema::Protobuf { .. } => RecordFormat::Protobuf,
            ParsedSchema::Json => RecordFormat::Json,
        }
    }

    /// Returns `true` for the schema without a file.
    pub(crate) fn is_built_in(&self) -> bool {
        self.is_built_in
    }
}

#[cfg(test)]
mod tests;
