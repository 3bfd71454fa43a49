//! Warnings about refused connections to brokers: one per cause and interval, with the number of
//! repetitions. The client library keeps retrying with a growing pause.

use std::time::{Duration, Instant};

use weir_kafka::SourceStatus;

/// Causes that were reported, with their latest report.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    login: Cause,
    tls: Cause,
    is_refused: bool,
}

#[derive(Debug, Default)]
struct Cause {
    /// Failures until the latest warning.
    counted: u64,
    warned_at: Option<Instant>,
}

impl RefusalLog {
    /// Logs a new refusal, and the end of the refusals.
    pub(crate) fn report(&mut self, connection: &str, status: &SourceStatus, now: Instant) {
        let Some(refusal) = &status.refused else {
            if std::mem::take(&mut self.is_refused) && status.ready {
                tracing::info!(connection, "brokers accept the connection again");
            }
            return;
        };
        self.is_refused = true;
        let (cause, total) = match refusal.is_login_failure() {
            true => (&mut self.login, status.login_failures),
            false => (&mut self.tls, status.tls_failures),
        };
        if let Some(failures) = cause.due(total, now) {
            tracing::warn!(
                connection,
                error = %refusal,
                failures,
                "brokers refused the connection, retrying"
            );
        }
    }
}

impl Cause {
    /// Returns the number of failures since the latest warning if another one is due.
    fn due(&mut self, total: u64, now: Instant) -> Option<u64> {
        let new = total.saturating_sub(self.counted);
        let is_recent = self.warned_at.is_some_and(|at| now < at + INTERVAL);
        if new == 0 || is_recent {
            return None;
        }
        self.counted = total;
        self.warned_at = Some(now);
        Some(new)
    }
}

/// Minimum time between two warnings of one cause.
const INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_per_interval_counts_all_failures() {
        let (mut cause, start) = (Cause::default(), Instant::now());
        assert_eq!(cause.due(0, start), None);
        assert_eq!(cause.due(2, start), Some(2));
        assert_eq!(cause.due(5, start + INTERVAL / 2), None);
        assert_eq!(cause.due(6, start + INTERVAL), Some(4));
        assert_eq!(cause.due(6, start + 3 * INTERVAL), None);
    }
}
