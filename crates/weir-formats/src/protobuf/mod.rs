//! Reads Protobuf messages: one pass over the bytes finds all wanted paths, and values are
//! converted to text as in the connector.
//!
//! A schema comes from a descriptor set or from `.proto` text. It is compiled once per set of
//! wanted paths into a plan that skips all other fields without decoding them.

mod check;
mod error;
mod extractor;
mod field_list;
mod member_buffers;
mod members;
mod plan;
mod reader;
mod scalar;
mod schema;
mod shape;
mod text;
mod unknown;
mod walk;
mod wire;

#[cfg(test)]
mod tests;

pub use error::{Missing, ProtobufError, ProtobufSchemaError};
pub use extractor::{ExtractFailure, ProtobufExtractor};
pub use reader::ProtobufReader;
pub use schema::{ProtobufMessage, ProtobufSchema};
pub use shape::{ProtobufField, ProtobufMessageRef, ProtobufShape};
