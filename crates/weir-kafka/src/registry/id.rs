//! Identifiers of schemas in a registry.

use std::fmt;
use std::sync::Arc;

/// Identifier of a schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RegistryId {
    /// Number in a Confluent registry.
    Number(i32),
    /// GUID in Confluent registries, as text.
    Guid(Arc<str>),
    /// Identifier in an Azure registry.
    Name(Arc<str>),
}

impl fmt::Display for RegistryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Guid(text) | Self::Name(text) => f.write_str(text),
        }
    }
}
