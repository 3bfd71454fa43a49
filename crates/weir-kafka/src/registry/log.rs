//! Warnings about lookups. Repeated failures are summed up, so the number of lines is bounded.

use std::time::Instant;

use super::error::RegistryError;
use super::id::RegistryId;
use crate::warning_pacer::WarningPacer;

/// Failed requests since the last warning.
#[derive(Debug)]
pub(super) struct FailureLog(WarningPacer);

impl Default for FailureLog {
    fn default() -> Self {
        Self(WarningPacer::new(1))
    }
}

impl FailureLog {
    /// Logs a failed request, at most one per interval.
    pub(super) fn note(&mut self, id: &RegistryId, error: &RegistryError, now: Instant) {
        if let Some(failures) = self.0.due(now) {
            tracing::warn!(
                schema = %id, %error, failures_before = failures,
                "schema lookup failed, trying again"
            );
        }
    }
}
