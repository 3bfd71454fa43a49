//! Schemas in the form that readers of documents take.

use std::sync::Arc;

use weir_formats::avro::AvroSchema;
use weir_formats::protobuf::ProtobufMessage;

use super::json_schema::JsonSchema;

/// A schema as the reader of its format takes it.
#[derive(Debug, Clone)]
pub(crate) enum CompiledSchema {
    Avro(Arc<AvroSchema>),
    Protobuf(Arc<ProtobufMessage>),
    Json(Arc<JsonSchema>),
}

impl CompiledSchema {
    /// Returns `true` if both are the same schema in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Avro(a), Self::Avro(b)) => Arc::ptr_eq(a, b),
            (Self::Protobuf(a), Self::Protobuf(b)) => Arc::ptr_eq(a, b),
            (Self::Json(a), Self::Json(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}
