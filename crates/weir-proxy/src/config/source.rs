//! The origin of configuration values.

use std::path::Path;

use crate::error::ProxyError;

/// Origin of a value, for messages and relative paths.
pub(super) struct ConfigSource<'a> {
    pub(super) name: String,
    /// Base directory of relative paths.
    pub(super) directory: &'a Path,
}

impl ConfigSource<'_> {
    pub(super) fn error(&self, reason: impl Into<String>) -> ProxyError {
        ProxyError::Config {
            file: self.name.clone(),
            reason: reason.into(),
        }
    }
}
