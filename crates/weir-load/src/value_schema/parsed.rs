//! Parsed schemas of all languages.

use std::sync::Arc;

use weir_formats::avro::AvroSchema;
use weir_formats::protobuf::{ProtobufMessage, ProtobufSchema};

#[derive(Debug, Clone)]
pub(crate) enum ParsedSchema {
    Avro(Arc<AvroSchema>),
    Protobuf {
        schema: ProtobufSchema,
        message: Arc<ProtobufMessage>,
    },
    /// The built-in object.
    Json,
}
