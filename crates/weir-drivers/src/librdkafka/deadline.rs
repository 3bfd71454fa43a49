//! Deadline of a command: part of its timeout, or the end of the input.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Deadline of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline<'a> {
    deadline: Instant,
    halt: &'a AtomicBool,
}

/// Reason for an early end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitAborted {
    TimedOut,
    Halted,
}

impl<'a> Deadline<'a> {
    /// Creates the deadline of a command that was received at `received` and whose driver is killed
    /// after `timeout`.
    pub(super) fn new(received: Instant, timeout: Duration, halt: &'a AtomicBool) -> Self {
        // A year is effectively no limit, and does not overflow an instant.
        let own = timeout.min(YEAR) * SHARE.0 / SHARE.1;
        Self {
            deadline: received + own,
            halt,
        }
    }

    /// Returns the remaining time; an error if there is none or the input has ended.
    pub(super) fn left(&self) -> Result<Duration, WaitAborted> {
        if self.halt.load(Ordering::Relaxed) {
            return Err(WaitAborted::Halted);
        }
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(WaitAborted::TimedOut),
            left => Ok(left),
        }
    }
}

/// Share of the timeout for the command; the rest is for its response.
const SHARE: (u32, u32) = (4, 5);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_is_before_the_timeout() {
        let halt = AtomicBool::new(false);
        let received = Instant::now();
        let deadline = Deadline::new(received, Duration::from_secs(100), &halt);
        assert!(deadline.left().expect("80 s") <= Duration::from_secs(80));
        let expired = Deadline::new(received, Duration::ZERO, &halt);
        assert_eq!(expired.left(), Err(WaitAborted::TimedOut));
        assert!(Deadline::new(received, Duration::MAX, &halt).left().is_ok());
        halt.store(true, Ordering::Relaxed);
        assert_eq!(deadline.left(), Err(WaitAborted::Halted));
    }
}
