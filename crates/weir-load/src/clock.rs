//! One clock for due instants, send instants and arrivals: wall clock at start, monotonic after.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Unix time that never steps: the wall clock is read once, the monotonic clock after that.
///
/// Two processes on one machine agree as long as the wall clock is not stepped between their
/// starts; slewing moves both.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    anchor: Instant,
    anchor_unix_ns: u64,
}

impl Clock {
    /// Takes the anchor now.
    pub fn start() -> Self {
        let anchor = Instant::now();
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            anchor,
            anchor_unix_ns: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The present instant in unix nanoseconds.
    pub fn now_unix_ns(&self) -> u64 {
        self.unix_ns(Instant::now())
    }

    /// `instant` in unix nanoseconds.
    pub fn unix_ns(&self, instant: Instant) -> u64 {
        match instant.checked_duration_since(self.anchor) {
            Some(after) => self.anchor_unix_ns.saturating_add(nanos(after)),
            None => {
                let before = self.anchor.duration_since(instant);
                self.anchor_unix_ns.saturating_sub(nanos(before))
            }
        }
    }

    /// The monotonic instant of `unix_ns`; instants before the anchor become the anchor.
    pub fn instant(&self, unix_ns: u64) -> Instant {
        self.anchor + Duration::from_nanos(unix_ns.saturating_sub(self.anchor_unix_ns))
    }
}

/// A duration as nanoseconds; more than 584 years becomes the largest value.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_survive_the_way_there_and_back() {
        let clock = Clock::start();
        let later = Instant::now() + Duration::from_secs(3);
        assert_eq!(clock.instant(clock.unix_ns(later)), later);
    }

    #[test]
    fn an_instant_before_the_anchor_is_smaller_not_an_error() {
        let before = Instant::now();
        let clock = Clock::start();
        assert!(clock.unix_ns(before) <= clock.anchor_unix_ns);
    }
}
