//! When reading begins. After a restart clients come back one after another, and the first of them
//! must not start what the others still lack: stored offsets are read from a while later.

use std::time::{Duration, Instant};

/// What to read from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// All but partitions that resume from a stored offset.
    New,
    /// Everything, for the first time after the delay.
    Resumed,
    All,
}

/// The delay between the first subscription and reading from stored offsets.
#[derive(Debug)]
pub(super) struct ResumeGate {
    delay: Duration,
    state: ResumeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResumeState {
    /// Nobody has subscribed yet, or all who had left before the end of the delay.
    Shut,
    /// Partitions that resume wait until then.
    Until(Instant),
    Open,
}

impl ResumeGate {
    /// `delay` is zero where no offsets are stored.
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            state: ResumeState::Shut,
        }
    }

    /// Takes note that there are subscriptions. Returns what to release, if anything new.
    pub(super) fn subscribed(&mut self, now: Instant) -> Option<Release> {
        let (state, release) = match self.state {
            ResumeState::Shut if self.delay.is_zero() => (ResumeState::Open, Some(Release::All)),
            ResumeState::Shut => (ResumeState::Until(now + self.delay), Some(Release::New)),
            ResumeState::Until(end) if now >= end => (ResumeState::Open, Some(Release::Resumed)),
            ResumeState::Until(_) | ResumeState::Open => (self.state, None),
        };
        self.state = state;
        release
    }

    /// Takes note that the last subscription ended and all is held. The next one finds the gate as
    /// if it were the first, unless reading has gone on already.
    pub(super) fn on_pause(&mut self) {
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
    fn stored_offsets_wait_for_the_delay_once() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut gate = ResumeGate::new(DELAY);
        assert_eq!(gate.subscribed(at(0)), Some(Release::New));
        assert_eq!(gate.subscribed(at(1999)), None);
        assert_eq!(gate.subscribed(at(2000)), Some(Release::Resumed));
        assert_eq!(gate.subscribed(at(2001)), None);
        gate.on_pause();
        assert_eq!(
            gate.subscribed(at(9000)),
            Some(Release::All),
            "no delay now"
        );
    }

    #[test]
    fn leaving_within_the_delay_starts_it_over() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut gate = ResumeGate::new(DELAY);
        gate.subscribed(at(0));
        gate.on_pause();
        assert_eq!(gate.subscribed(at(5000)), Some(Release::New));
        assert_eq!(gate.subscribed(at(6000)), None);
        assert_eq!(gate.subscribed(at(7000)), Some(Release::Resumed));
    }

    #[test]
    fn without_stored_offsets_there_is_no_delay() {
        let mut gate = ResumeGate::new(Duration::ZERO);
        assert_eq!(gate.subscribed(Instant::now()), Some(Release::All));
    }
}
