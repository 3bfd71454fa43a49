//! Warnings about lookups. Repeated failures are summed up, so the number of lines is bounded.

use std::time::{Duration, Instant};

use super::error::RegistryError;
use super::id::RegistryId;

/// Minimum time between two warnings about failed requests.
const INTERVAL: Duration = Duration::from_secs(10);

/// Failed requests since the last warning.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    warned: Option<Instant>,
    suppressed: u64,
}

impl FailureLog {
    /// Logs a failed request, at most one per interval.
    pub(super) fn note(&mut self, id: &RegistryId, error: &RegistryError, now: Instant) {
        if let Some(failures) = self.due(now) {
            tracing::warn!(
                schema = %id, %error, failures_before = failures,
                "schema lookup failed, trying again"
            );
        }
    }

    /// Returns the number of suppressed warnings if one is due, and counts otherwise.
    fn due(&mut self, now: Instant) -> Option<u64> {
        if self.warned.is_some_and(|warned| now < warned + INTERVAL) {
            self.suppressed += 1;
            return None;
        }
        self.warned = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failures_are_summed_up() {
        let (mut log, now) = (FailureLog::default(), Instant::now());
        assert_eq!(log.due(now), Some(0));
        assert_eq!(log.due(now + INTERVAL / 2), None);
        assert_eq!(log.due(now + INTERVAL / 2), None);
        assert_eq!(log.due(now + INTERVAL), Some(2));
        assert_eq!(log.due(now + INTERVAL * 2), Some(0));
    }
}
