//! Limits the log lines of one call site and counts those that it suppresses.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// Lines that may be logged in a burst.
const BURST: u64 = 10;
/// Milliseconds until one more line may be logged.
const INTERVAL_MS: u64 = 1_000;

/// Limiters that have suppressed at least one line; bounded by the number of call sites.
static REGISTERED: Mutex<Vec<&'static LogLimiter>> = Mutex::new(Vec::new());
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Token bucket for log lines of one kind of event. [`limited!`](crate::limited) creates one per
/// call site. It takes a lock only for the first line that it suppresses.
#[derive(Debug)]
pub struct LogLimiter {
    kind: &'static str,
    /// Time at which the bucket is full, in milliseconds.
    full_at_ms: AtomicU64,
    /// Lines suppressed since the last report.
    suppressed: AtomicU64,
    is_registered: AtomicBool,
}

impl LogLimiter {
    /// Creates a limiter with a full bucket; `kind` names the event in reports of suppressed lines.
    pub const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            full_at_ms: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            is_registered: AtomicBool::new(false),
        }
    }

    /// Returns `true` if a line may be logged now, and counts it as suppressed otherwise.
    pub fn admits(&'static self) -> bool {
        if self.take(EPOCH.elapsed().as_millis() as u64) {
            return true;
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        SUPPRESSED.fetch_add(1, Ordering::Relaxed);
        if !self.is_registered.swap(true, Ordering::Relaxed) {
            let mut all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(self);
        }
        false
    }

    fn take(&self, now_ms: u64) -> bool {
        let taken =
            self.full_at_ms
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at_ms| {
                    let after_ms = full_at_ms.max(now_ms) + INTERVAL_MS;
                    (after_ms <= now_ms + BURST * INTERVAL_MS).then_some(after_ms)
                });
        taken.is_ok()
    }
}

/// Logs one line per kind of event with the number of lines suppressed since the last call. To be
/// called every few seconds.
pub fn report_suppressed() {
    let all = REGISTERED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    for limiter in all {
        let count = limiter.suppressed.swap(0, Ordering::Relaxed);
        if count > 0 {
            let kind = limiter.kind;
            tracing::warn!(kind, count, "suppressed log lines");
        }
    }
}

/// Returns the number of lines suppressed since the process started.
pub fn suppressed_lines() -> u64 {
    SUPPRESSED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiter_admits_burst_then_one_per_interval() {
        let limiter = LogLimiter::new("test");
        let passed = (0..100).filter(|_| limiter.take(5_000)).count();
        assert_eq!(passed as u64, BURST);
        assert!(!limiter.take(5_999));
        assert!(limiter.take(6_000));
        assert!(!limiter.take(6_000));
        let passed = (0..100).filter(|_| limiter.take(1_000_000)).count();
        assert_eq!(passed as u64, BURST, "bucket is full, not above");
    }

    #[test]
    fn suppressed_lines_are_counted_per_kind() {
        static LIMITER: LogLimiter = LogLimiter::new("test of counting");
        let before = suppressed_lines();
        let passed = (0..1_000).filter(|_| LIMITER.admits()).count() as u64;
        assert!((BURST..BURST + 5).contains(&passed), "{passed}");
        assert_eq!(LIMITER.suppressed.load(Ordering::Relaxed), 1_000 - passed);
        assert!(suppressed_lines() - before >= 1_000 - passed);
        report_suppressed();
        assert_eq!(LIMITER.suppressed.load(Ordering::Relaxed), 0);
    }
}
