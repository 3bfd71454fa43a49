//! A schema registry: Apicurio Registry with its Confluent-compatible API.

mod instance;
mod options;
mod schemas;

pub use instance::Registry;
pub(crate) use instance::{RegistryLaunch, url};
pub(crate) use options::REGISTRY_HEAP_MB;
pub use options::{RegistryOptions, RegistrySecurity};
pub use schemas::SchemaReference;

/// Release of Apicurio Registry, the last one for Java 17.
pub const REGISTRY_VERSION: &str = "3.0.9";
