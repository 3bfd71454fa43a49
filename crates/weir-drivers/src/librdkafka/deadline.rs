//! How long a command may go on: most of the time it has been given, and not past the end of the input.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The end of a command's time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline<'a> {
    deadline: Instant,
    halt: &'a AtomicBool,
}

/// Why a wait ends without what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitAborted {
    Late,
    Halted,
}

impl<'a> Deadline<'a> {
    /// For a command that came then and will be killed after `timeout`.
    pub(super) fn new(came: Instant, timeout: Duration, halt: &'a AtomicBool) -> Self {
        // A year is as good as no limit, and can be added to an instant.
        let own = timeout.min(YEAR) * SHARE.0 / SHARE.1;
        Self {
            deadline: came + own,
            halt,
        }
    }

    /// Time that is left; an error when there is none.
    pub(super) fn left(&self) -> Result<Duration, WaitAborted> {
        if self.halt.load(Ordering::Relaxed) {
            return Err(WaitAborted::Halted);
        }
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(WaitAborted::Late),
            left => Ok(left),
        }
    }
}

/// The rest is for the answer.
const SHARE: (u32, u32) = (4, 5);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_before_the_command_is_killed() {
        let halt = AtomicBool::new(false);
        let came = Instant::now();
        let patience = Deadline::new(came, Duration::from_secs(100), &halt);
        assert!(patience.left().expect("80 s") <= Duration::from_secs(80));
        let over = Deadline::new(came, Duration::ZERO, &halt);
        assert_eq!(over.left(), Err(WaitAborted::Late));
        assert!(Deadline::new(came, Duration::MAX, &halt).left().is_ok());
        halt.store(true, Ordering::Relaxed);
        assert_eq!(patience.left(), Err(WaitAborted::Halted));
    }
}
