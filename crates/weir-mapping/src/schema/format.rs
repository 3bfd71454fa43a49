//! Formats of documents in keys and values.

use std::sync::{Arc, OnceLock};

use weir_formats::json::{JsonCheck, NumberForm};

use super::compiled::CompiledSchema;
use super::table::SchemaTable;
use crate::record_part::KeyAndValue;

/// Formats of the documents that a mapping reads; `None` if no expression needs the part.
pub(crate) type DocumentFormats = KeyAndValue<Option<Arc<DocumentFormat>>>;

/// How documents of keys or of values are decoded.
#[derive(Debug, Default)]
pub(crate) struct DocumentFormat {
    pub(crate) kind: DocumentKind,
    /// Text of JSON numbers with a fraction or exponent.
    pub(crate) numbers: NumberForm,
    pub(crate) check: JsonCheck,
    pub(crate) schema: SchemaSource,
}

/// Encoding of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::Display)]
#[strum(serialize_all = "UPPERCASE")]
pub(crate) enum DocumentKind {
    #[default]
    Json,
    Avro,
    Protobuf,
}

/// Origin of the schema of a document.
#[derive(Debug, Default)]
pub(crate) enum SchemaSource {
    /// JSON without a schema.
    #[default]
    None,
    /// A file, which the owner of the configuration reads.
    File(OnceLock<CompiledSchema>),
    /// Each payload names its schema.
    Registry(Framing, Arc<SchemaTable>),
}

/// How a payload names its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Confluent's prefix or header.
    Confluent {
        /// The path of a message type follows the id.
        has_indexes: bool,
    },
    /// Azure's header of Avro payloads.
    AzureAvro,
    /// Azure's header of JSON payloads.
    AzureJson,
}

impl DocumentFormat {
    /// Returns the framing and the table if decoding needs a registered schema. Confluent's JSON
    /// does not: the schema changes nothing in the decoded document.
    pub(crate) fn registered(&self) -> Option<(Framing, &SchemaTable)> {
        match &self.schema {
            SchemaSource::Registry(framing @ Framing::Confluent { .. }, table) => {
                (self.kind != DocumentKind::Json).then_some((*framing, table))
            }
            SchemaSource::Registry(framing, table) => Some((*framing, table)),
            SchemaSource::None | SchemaSource::File(_) => None,
        }
    }

    /// Returns `true` if a payload without bytes is null. With Confluent's registry, Avro and
    /// Protobuf payloads without bytes are errors.
    pub(crate) fn is_null_if_empty(&self) -> bool {
        let is_confluent = matches!(
            self.schema,
            SchemaSource::Registry(Framing::Confluent { .. }, _)
        );
        self.kind == DocumentKind::Json || !is_confluent
    }
}
