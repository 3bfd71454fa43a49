//! When the connections with pending output are written out: in passes, with a rest between them.
//!
//! A pass writes every connection once. After a pass that took long the next one waits just as
//! long, so that under load a write carries what several records left (decision 0012).

use std::time::{Duration, Instant};

/// Passes shorter than this are not followed by a rest: there is no load.
const RESTS_FROM: Duration = Duration::from_millis(1);
/// A rest never adds more than this to an update's way.
const REST_MAX: Duration = Duration::from_millis(10);

/// Where the loop is between passes.
#[derive(Debug)]
pub(super) struct FlushSchedule {
    state: FlushState,
}

#[derive(Debug, Clone, Copy)]
enum FlushState {
    /// The next pass may begin at this instant.
    Resting { until: Instant },
    /// So many connections are still to be written.
    Writing { since: Instant, left: usize },
}

impl FlushSchedule {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: FlushState::Resting { until: now },
        }
    }

    /// How many connections may be written now, of those pending and at most `most`.
    pub(super) fn allowance(&mut self, now: Instant, pending: usize, most: usize) -> usize {
        if let FlushState::Resting { until } = self.state {
            if pending == 0 || now < until {
                return 0;
            }
            self.state = FlushState::Writing {
                since: now,
                left: pending,
            };
        }
        match self.state {
            FlushState::Writing { left, .. } => left.min(pending).min(most),
            FlushState::Resting { .. } => 0,
        }
    }

    /// So many were written; `pending` are left, old and new.
    pub(super) fn wrote(&mut self, now: Instant, count: usize, pending: usize) {
        let FlushState::Writing { since, left } = &mut self.state else {
            return;
        };
        *left -= count.min(*left);
        if *left > 0 && pending > 0 {
            return;
        }
        let took = now.saturating_duration_since(*since);
        let rest = match took >= RESTS_FROM {
            true => took.min(REST_MAX),
            false => Duration::ZERO,
        };
        self.state = FlushState::Resting { until: now + rest };
    }

    /// How long the loop may sleep although connections are pending.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        match self.state {
            FlushState::Resting { until } => until.saturating_duration_since(now),
            FlushState::Writing { .. } => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_short_pass_is_followed_by_the_next_at_once() {
        let now = Instant::now();
        let mut passes = FlushSchedule::new(now);
        assert_eq!(passes.allowance(now, 3, 512), 3);
        passes.wrote(now + MS / 2, 3, 1);
        assert_eq!(passes.wait(now + MS / 2), Duration::ZERO);
        assert_eq!(passes.allowance(now + MS / 2, 1, 512), 1);
    }

    #[test]
    fn a_long_pass_is_followed_by_as_long_a_rest() {
        let start = Instant::now();
        let mut passes = FlushSchedule::new(start);
        assert_eq!(passes.allowance(start, 1000, 512), 512);
        passes.wrote(start + 2 * MS, 512, 900);
        // What became pending meanwhile belongs to the next pass.
        assert_eq!(passes.allowance(start + 2 * MS, 900, 512), 488);
        passes.wrote(start + 4 * MS, 488, 412);
        assert_eq!(passes.wait(start + 5 * MS), 3 * MS);
        assert_eq!(passes.allowance(start + 7 * MS, 1000, 512), 0);
        assert_eq!(passes.allowance(start + 8 * MS, 1000, 512), 512);
    }

    #[test]
    fn a_rest_has_a_limit_and_idleness_none() {
        let start = Instant::now();
        let mut passes = FlushSchedule::new(start);
        assert_eq!(passes.allowance(start, 1, 512), 1);
        passes.wrote(start + 90 * MS, 1, 0);
        assert_eq!(passes.wait(start + 90 * MS), REST_MAX);
        assert_eq!(passes.allowance(start + 200 * MS, 0, 512), 0);
        assert_eq!(passes.allowance(start + 300 * MS, 2, 512), 2);
    }
}
