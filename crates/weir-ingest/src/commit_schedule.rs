//! Commit rate: 5 commits per second up to 10,000 records per second, decreasing linearly to one
//! per second at 500,000.

use std::time::{Duration, Instant};

const SLOW_RECORDS_S: f64 = 10_000.0;
const FAST_RECORDS_S: f64 = 500_000.0;
const COMMITS_S_MAX: f64 = 5.0;
const COMMITS_S_MIN: f64 = 1.0;
/// Weight of the latest rate in the moving average.
const SMOOTHING: f64 = 0.3;

#[derive(Debug)]
pub(crate) struct CommitSchedule {
    last: Instant,
    records: u64,
    records_s: f64,
}

impl CommitSchedule {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            last: now,
            records: 0,
            records_s: 0.0,
        }
    }

    pub(crate) fn count(&mut self, records: usize) {
        self.records += records as u64;
    }

    /// Returns `true` if the next commit is due; then the following one is scheduled from `now`.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.last);
        if passed < self.period() {
            return false;
        }
        let newest = self.records as f64 / passed.as_secs_f64();
        self.records_s += SMOOTHING * (newest - self.records_s);
        (self.last, self.records) = (now, 0);
        true
    }

    fn period(&self) -> Duration {
        let above = (self.records_s - SLOW_RECORDS_S) / (FAST_RECORDS_S - SLOW_RECORDS_S);
        let commits_s = COMMITS_S_MAX - above.clamp(0.0, 1.0) * (COMMITS_S_MAX - COMMITS_S_MIN);
        Duration::from_secs_f64(1.0 / commits_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commits in the last 10 of 60 seconds at a constant rate, checked every
    /// millisecond.
    fn commits(records_ms: usize) -> usize {
        let start = Instant::now();
        let mut pace = CommitSchedule::new(start);
        let mut count = 0;
        for ms in 1..=60_000 {
            pace.count(records_ms);
            let due = pace.is_due(start + Duration::from_millis(ms));
            count += usize::from(due && ms > 50_000);
        }
        count
    }

    #[test]
    fn busy_topics_commit_less_often() {
        assert_eq!(commits(0), 50);
        assert_eq!(commits(10), 50);
        assert!((29..=31).contains(&commits(255)), "{}", commits(255));
        assert_eq!(commits(500), 10);
        assert_eq!(commits(5000), 10);
    }
}
