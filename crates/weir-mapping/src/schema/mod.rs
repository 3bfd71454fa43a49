//! Schemas of record keys and values: the table of registered schemas, the wire frames that name
//! them, and the schemas of files.

mod cache;
mod check;
mod compiled;
mod format;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod id;
mod json_schema;
mod table;

pub(crate) use cache::{SchemaCache, SchemaProblem};
pub use check::KnownSchemas;
pub(crate) use compiled::CompiledSchema;
pub(crate) use format::{DocumentFormat, DocumentFormats, DocumentKind, Framing, SchemaSource};
pub use frame::FrameError;
pub(crate) use frame::read_frame;
pub use id::SchemaId;
pub(crate) use json_schema::JsonMismatch;
pub use table::{Schema, SchemaError, SchemaKind, SchemaReference, SchemaState, SchemaTable};
