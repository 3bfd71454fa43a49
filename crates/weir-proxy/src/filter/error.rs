//! Errors of the filter configuration.

use thiserror::Error;

/// An invalid filter configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("filter {filter}: {key} = {value}: {remedy}")]
pub struct FilterError {
    /// Type of the filter.
    pub filter: &'static str,
    /// Key.
    pub key: &'static str,
    /// Value.
    pub value: String,
    /// Remedy.
    pub remedy: &'static str,
}
