//! Reads Avro records: a plan compiled from the schema and the wanted paths skips everything else,
//! and values are converted to text as in the connector.
//!
//! A record is decoded with the schema of its writer. There is no second schema, so defaults,
//! aliases and promotions of types have no effect. Neither have logical types: the connector prints
//! the stored number, bytes or text.

mod compile;
mod cursor;
mod error;
mod extractor;
mod parse;
mod plan;
mod quick;
mod reader;
mod schema;
mod shape;
mod skip;
#[cfg(test)]
mod tests;
mod text;
mod trace;
mod walk;

pub use error::{AvroError, AvroSchemaError};
pub use extractor::{AvroExtractor, AvroPathError};
pub use reader::{AvroReader, Missing};
pub use schema::AvroSchema;
pub use shape::{AvroShape, AvroTypeRef};
