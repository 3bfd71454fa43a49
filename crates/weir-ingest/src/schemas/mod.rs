//! Schema registries of connections: settings, lookups, and the table that extraction reads.

mod fetch;
mod loader;
mod settings;

pub use fetch::fetch_missing;
pub(crate) use loader::registry_id;
pub use settings::{ConnectionRegistry, SchemaRegistryConfig};
