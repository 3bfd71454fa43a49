//! Pause of the consumers during which a backlog builds up, and how it is drained.

use std::time::Duration;

use crate::clock::nanos;
use crate::delivery::BacklogSummary;
use crate::worker::protocol::Schedule;

/// Pause from the start of the measured window.
#[derive(Debug)]
pub(super) struct Backlog {
    length: Duration,
    records: u64,
    last_unix_ns: u64,
}

impl Backlog {
    pub(super) fn new(length: Duration) -> Self {
        Self {
            length,
            records: 0,
            last_unix_ns: 0,
        }
    }

    fn end_unix_ns(&self, schedule: &Schedule) -> u64 {
        let from_unix_ns = schedule.measure_from_unix_ns;
        from_unix_ns.saturating_add(nanos(self.length))
    }

    /// Returns `true` if consumers read nothing now.
    pub(super) fn is_pause(&self, schedule: &Schedule, now_unix_ns: u64) -> bool {
        (schedule.measure_from_unix_ns..self.end_unix_ns(schedule)).contains(&now_unix_ns)
    }

    /// Counts a record if it was due during the pause.
    pub(super) fn record(&mut self, schedule: &Schedule, due_unix_ns: u64, at_unix_ns: u64) {
        if self.is_pause(schedule, due_unix_ns) {
            self.records += 1;
            self.last_unix_ns = self.last_unix_ns.max(at_unix_ns);
        }
    }

    pub(super) fn summary(&self, schedule: &Schedule) -> BacklogSummary {
        BacklogSummary {
            records: self.records,
            drain_ns: self.last_unix_ns.saturating_sub(self.end_unix_ns(schedule)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_due_during_the_pause_are_its_backlog() {
        let schedule = Schedule {
            start_unix_ns: 0,
            measure_from_unix_ns: 1_000,
            measure_until_unix_ns: 9_000,
            stop_unix_ns: 10_000,
        };
        let mut backlog = Backlog::new(Duration::from_nanos(2_000));
        let pause = [999, 1_000, 2_999, 3_000].map(|at| backlog.is_pause(&schedule, at));
        assert_eq!(pause, [false, true, true, false]);
        for (due, at) in [(900, 3_100), (1_000, 3_200), (2_500, 4_000), (3_000, 5_000)] {
            backlog.record(&schedule, due, at);
        }
        let summary = backlog.summary(&schedule);
        assert_eq!((summary.records, summary.drain_ns), (2, 1_000));
        assert_eq!(summary.records_per_s(), 2e6);
    }
}
