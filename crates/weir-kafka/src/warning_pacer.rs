//! Bounds the number of warnings about one kind of event, and counts those that are left out.

use std::time::{Duration, Instant};

/// Window of warnings.
#[derive(Debug)]
pub(crate) struct WarningPacer {
    /// Maximum number of warnings per window.
    burst: u32,
    began: Option<Instant>,
    logged: u32,
    suppressed: u64,
}

impl WarningPacer {
    /// Creates a window that admits `burst` warnings per `INTERVAL`.
    pub(crate) const fn new(burst: u32) -> Self {
        Self {
            burst,
            began: None,
            logged: 0,
            suppressed: 0,
        }
    }

    /// Returns the number of warnings left out before if one is due, and counts otherwise.
    pub(crate) fn due(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now >= began + INTERVAL) {
            self.began = Some(now);
            self.logged = 0;
        }
        if self.logged == self.burst {
            self.suppressed += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

const INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_beyond_the_burst_are_summed_up() {
        let (mut pacer, now) = (WarningPacer::new(2), Instant::now());
        assert_eq!(pacer.due(now), Some(0));
        assert_eq!(pacer.due(now + INTERVAL / 2), Some(0));
        assert_eq!(pacer.due(now + INTERVAL / 2), None);
        assert_eq!(pacer.due(now + INTERVAL / 2), None);
        assert_eq!(pacer.due(now + INTERVAL), Some(2));
        assert_eq!(pacer.due(now + INTERVAL * 2), Some(0));
    }
}
