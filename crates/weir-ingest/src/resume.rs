//! Start of reading. After a restart, clients reconnect one after another, and the first one must
//! not consume records that others still lack. Therefore reading from stored offsets is delayed.

use std::time::{Duration, Instant};

/// The partitions to read from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadRelease {
    /// All except partitions that resume from a stored offset.
    New,
    /// All, for the first time after the delay.
    Resumed,
    All,
}

#[derive(Debug)]
pub(crate) struct ResumeGate {
    delay: Duration,
    state: ResumeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResumeState {
    /// No subscription yet, or all subscribers left before the end of the delay.
    Shut,
    /// Partitions that resume are paused until this instant.
    Until(Instant),
    Open,
}

impl ResumeGate {
    /// Creates the gate; `delay` is zero if no offsets are stored.
    pub(crate) fn new(delay: Duration) -> Self {
        Self {
            delay,
            state: ResumeState::Shut,
        }
    }

    /// Records that there are subscriptions; returns the partitions to release, if any are new.
    pub(crate) fn subscribed(&mut self, now: Instant) -> Option<ReadRelease> {
        let until = ResumeState::Until(now + self.delay);
        let (state, release) = match self.state {
            ResumeState::Shut if self.delay.is_zero() => (ResumeState::Open, ReadRelease::All),
            ResumeState::Shut => (until, ReadRelease::New),
            ResumeState::Until(end) if now >= end => (ResumeState::Open, ReadRelease::Resumed),
            ResumeState::Until(_) | ResumeState::Open => return None,
        };
        self.state = state;
        Some(release)
    }

    /// Records that the last subscription ended and reading is paused. The delay starts again with
    /// the next subscription, unless reading has resumed before.
    pub(crate) fn on_pause(&mut self) {
        if self.state == ResumeState::Open {
            self.delay = Duration::ZERO;
        }
        self.state = ResumeState::Shut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(2);

    #[test]
    fn stored_offsets_are_delayed_once() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut gate = ResumeGate::new(DELAY);
        assert_eq!(gate.subscribed(at(0)), Some(ReadRelease::New));
        assert_eq!(gate.subscribed(at(1999)), None);
        assert_eq!(gate.subscribed(at(2000)), Some(ReadRelease::Resumed));
        assert_eq!(gate.subscribed(at(2001)), None);
        gate.on_pause();
        assert_eq!(
            gate.subscribed(at(9000)),
            Some(ReadRelease::All),
            "no second delay"
        );
    }

    #[test]
    fn leaving_within_delay_restarts_it() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut gate = ResumeGate::new(DELAY);
        gate.subscribed(at(0));
        gate.on_pause();
        assert_eq!(gate.subscribed(at(5000)), Some(ReadRelease::New));
        assert_eq!(gate.subscribed(at(6000)), None);
        assert_eq!(gate.subscribed(at(7000)), Some(ReadRelease::Resumed));
    }

    #[test]
    fn no_stored_offsets_no_delay() {
        let mut gate = ResumeGate::new(Duration::ZERO);
        assert_eq!(gate.subscribed(Instant::now()), Some(ReadRelease::All));
    }
}
