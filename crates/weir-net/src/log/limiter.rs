//! A limit on the log lines of one call site, and the sum of those that it suppressed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// Lines that may follow each other at once.
const BURST: u64 = 10;
/// Milliseconds after which one more line is admitted.
const INTERVAL_MS: u64 = 1_000;

/// Limiters that have suppressed a line at least once: their number is that of the call sites.
static REGISTERED: Mutex<Vec<&'static LogLimiter>> = Mutex::new(Vec::new());
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A token bucket for the lines of one kind of event: [`limited!`](crate::limited) makes one per
/// call site. It takes no lock, but for the first line that it suppresses.
#[derive(Debug)]
pub struct LogLimiter {
    kind: &'static str,
    /// When the bucket is full again, in milliseconds.
    full_at_ms: AtomicU64,
    /// Lines suppressed since they were reported last.
    suppressed: AtomicU64,
    is_registered: AtomicBool,
}

impl LogLimiter {
    /// Creates a limiter with a full bucket; `kind` names the event where suppressed lines are
    /// summed up.
    pub const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            full_at_ms: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            is_registered: AtomicBool::new(false),
        }
    }

    /// Returns whether a line may be logged now, and counts it otherwise.
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

    /// Takes a token if there is one.
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

/// Logs one line per kind of event of which lines were suppressed since the last call; to be called
/// every few seconds.
pub fn report_suppressed() {
    let all = REGISTERED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    for limiter in all {
        let count = limiter.suppressed.swap(0, Ordering::Relaxed);
        if count > 0 {
            let kind = limiter.kind;
            tracing::warn!(
                kind,
                count,
                "log lines suppressed: too many events of one kind"
            );
        }
    }
}

/// Returns how many lines were suppressed since the process started.
pub fn suppressed_lines() -> u64 {
    SUPPRESSED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_line_per_interval() {
        let limiter = LogLimiter::new("test");
        let passed = (0..100).filter(|_| limiter.take(5_000)).count();
        assert_eq!(passed as u64, BURST);
        assert!(!limiter.take(5_999));
        assert!(limiter.take(6_000));
        assert!(!limiter.take(6_000));
        let passed = (0..100).filter(|_| limiter.take(1_000_000)).count();
        assert_eq!(
            passed as u64, BURST,
            "the bucket is full again, and no fuller"
        );
    }

    #[test]
    fn what_is_suppressed_is_counted_for_its_kind() {
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
