//! Errors of the filter configuration.

use thiserror::Error;

use super::Filter;

/// An invalid filter configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("filter {filter}: {key} = {value}: {remedy}")]
pub(crate) struct FilterError {
    /// Type of the filter.
    pub(crate) filter: String,
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) remedy: &'static str,
}

/// A key of a filter that cannot be used: key, value and remedy.
#[derive(Debug)]
pub(super) struct InvalidKey(
    pub(super) &'static str,
    pub(super) String,
    pub(super) &'static str,
);

pub(super) type BuildResult = Result<Box<dyn Filter>, InvalidKey>;
