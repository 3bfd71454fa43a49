//! Client of a schema registry: fetches schemas by id with their references, over the REST
//! interface of Confluent or of Azure Event Hubs.
//!
//! Schemas are texts here; the caller parses them.

mod azure;
mod client;
mod error;
#[cfg(test)]
mod fake;
mod file_cache;
mod http;
mod id;
mod log;
mod lookups;
mod queue;
mod response;

pub use client::{RegistryClient, RegistryLogin, RegistrySettings};
pub use error::RegistryError;
pub use file_cache::FileCache;
pub use id::RegistryId;
pub use lookups::{LookupCounters, Lookups, SchemaSink, UnusableSchema};
pub use queue::LookupLimits;
pub use response::{RegisteredSchema, SchemaText, SubjectVersion};
#[cfg(any(test, fuzzing))]
pub(crate) use response::{parse_schema, parse_subject};
