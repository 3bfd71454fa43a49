//! The rate limit of reading.

use std::time::{Duration, Instant};

/// A token bucket that holds the tokens of one second.
#[derive(Debug)]
pub(super) struct ReadPace {
    per_second: f64,
    tokens: f64,
    refilled: Instant,
}

impl ReadPace {
    pub(super) fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second.max(1));
        Self {
            per_second,
            tokens: per_second,
            refilled: now,
        }
    }

    /// Takes tokens for records. Returns the wait until the next ones may be taken.
    pub(super) fn take(&mut self, records: usize, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = now;
        let filled = (self.tokens + passed * self.per_second).min(self.per_second);
        self.tokens = filled - records as f64;
        match self.tokens < 0.0 {
            true => Duration::from_secs_f64(-self.tokens / self.per_second),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_holds_after_the_first_second() {
        let start = Instant::now();
        let mut pace = ReadPace::new(100, start);
        assert_eq!(pace.take(100, start), Duration::ZERO);
        assert_eq!(pace.take(50, start), Duration::from_millis(500));
        let later = start + Duration::from_millis(500);
        assert_eq!(pace.take(0, later), Duration::ZERO);
        let idle = later + Duration::from_secs(60);
        assert_eq!(pace.take(100, idle), Duration::ZERO);
        assert!(pace.take(1, idle) > Duration::ZERO);
    }
}
