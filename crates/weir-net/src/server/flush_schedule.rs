//! Schedules flush rounds. Under load, the event loop pauses between rounds.
//!
//! A flush round writes every pending connection once. A pause as long as the round follows a long
//! round, so that one write carries several records (decision 0012).

use std::time::{Duration, Instant};

/// Minimum duration of a flush round for a pause to follow; shorter rounds mean there is no load.
const PAUSE_FROM: Duration = Duration::from_millis(1);
/// Maximum pause, and so the maximum latency that it adds to an update.
const PAUSE_MAX: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy)]
pub(super) enum FlushSchedule {
    /// Paused; the next round may start at `until`.
    Paused { until: Instant },
    /// A round is in progress; `left` connections are still to be written.
    Writing { since: Instant, left: usize },
}

impl FlushSchedule {
    pub(super) fn new(now: Instant) -> Self {
        Self::Paused { until: now }
    }

    /// Returns how many of the `pending` connections may be written now, at most `max`.
    pub(super) fn allowance(&mut self, now: Instant, pending: usize, max: usize) -> usize {
        if let Self::Paused { until } = *self {
            if pending == 0 || now < until {
                return 0;
            }
            *self = Self::Writing {
                since: now,
                left: pending,
            };
        }
        match *self {
            Self::Writing { left, .. } => left.min(pending).min(max),
            Self::Paused { .. } => 0,
        }
    }

    /// Records that `count` connections were written and `pending` are left, old and new.
    pub(super) fn on_written(&mut self, now: Instant, count: usize, pending: usize) {
        let Self::Writing { since, left } = self else {
            return;
        };
        *left -= count.min(*left);
        if *left > 0 && pending > 0 {
            return;
        }
        let took = now.saturating_duration_since(*since);
        let pause = match took >= PAUSE_FROM {
            true => took.min(PAUSE_MAX),
            false => Duration::ZERO,
        };
        *self = Self::Paused { until: now + pause };
    }

    /// Returns how long the event loop may sleep although connections are pending.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        match *self {
            Self::Paused { until } => until.saturating_duration_since(now),
            Self::Writing { .. } => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn short_round_needs_no_pause() {
        let now = Instant::now();
        let mut schedule = FlushSchedule::new(now);
        assert_eq!(schedule.allowance(now, 3, 512), 3);
        schedule.on_written(now + MS / 2, 3, 1);
        assert_eq!(schedule.wait(now + MS / 2), Duration::ZERO);
        assert_eq!(schedule.allowance(now + MS / 2, 1, 512), 1);
    }

    #[test]
    fn pause_is_as_long_as_long_round() {
        let start = Instant::now();
        let mut schedule = FlushSchedule::new(start);
        assert_eq!(schedule.allowance(start, 1000, 512), 512);
        schedule.on_written(start + 2 * MS, 512, 900);
        // Connections that became pending in the meantime belong to the next round.
        assert_eq!(schedule.allowance(start + 2 * MS, 900, 512), 488);
        schedule.on_written(start + 4 * MS, 488, 412);
        assert_eq!(schedule.wait(start + 5 * MS), 3 * MS);
        assert_eq!(schedule.allowance(start + 7 * MS, 1000, 512), 0);
        assert_eq!(schedule.allowance(start + 8 * MS, 1000, 512), 512);
    }

    #[test]
    fn flush_pause_is_bounded() {
        let start = Instant::now();
        let mut schedule = FlushSchedule::new(start);
        assert_eq!(schedule.allowance(start, 1, 512), 1);
        schedule.on_written(start + 90 * MS, 1, 0);
        assert_eq!(schedule.wait(start + 90 * MS), PAUSE_MAX);
        assert_eq!(schedule.allowance(start + 200 * MS, 0, 512), 0);
        assert_eq!(schedule.allowance(start + 300 * MS, 2, 512), 2);
    }
}
