//! Clock for due times, send times and arrivals: wall clock at the start, monotonic afterwards.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Environment variable of a worker on another machine: nanoseconds by which the clock of its
/// machine is behind the coordinator's.
pub const OFFSET_VARIABLE: &str = "WEIR_CLOCK_OFFSET_NS";

/// Returns the time of the wall clock in Unix nanoseconds, with all its steps.
pub fn wall_clock_unix_ns() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    nanos(unix.unwrap_or_default())
}

/// Unix time without steps: the wall clock is read once, after that only the monotonic clock.
///
/// Two processes on one machine agree as long as the wall clock is not stepped between their
/// starts. Slewing affects both.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    anchor: Instant,
    anchor_unix_ns: u64,
}

impl Clock {
    /// Starts the clock at the current time, which [`OFFSET_VARIABLE`] corrects.
    pub fn start() -> Self {
        let offset_ns = std::env::var(OFFSET_VARIABLE).ok();
        let offset_ns = offset_ns.and_then(|text| text.parse().ok()).unwrap_or(0);
        let anchor = Instant::now();
        Self {
            anchor,
            anchor_unix_ns: wall_clock_unix_ns().saturating_add_signed(offset_ns),
        }
    }

    /// Returns the current time in Unix nanoseconds.
    pub fn now_unix_ns(&self) -> u64 {
        self.unix_ns(Instant::now())
    }

    /// Converts `instant` to Unix nanoseconds.
    pub fn unix_ns(&self, instant: Instant) -> u64 {
        match instant.checked_duration_since(self.anchor) {
            Some(after) => self.anchor_unix_ns.saturating_add(nanos(after)),
            None => {
                let before = self.anchor.duration_since(instant);
                self.anchor_unix_ns.saturating_sub(nanos(before))
            }
        }
    }

    /// Converts `unix_ns` to a monotonic instant, at the earliest the start of the clock.
    pub fn instant(&self, unix_ns: u64) -> Instant {
        self.anchor + Duration::from_nanos(unix_ns.saturating_sub(self.anchor_unix_ns))
    }
}

/// Converts a duration to nanoseconds; more than 584 years becomes `u64::MAX`.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_survive_a_round_trip() {
        let clock = Clock::start();
        let later = Instant::now() + Duration::from_secs(3);
        assert_eq!(clock.instant(clock.unix_ns(later)), later);
    }

    #[test]
    fn instant_before_anchor_is_smaller() {
        let before = Instant::now();
        let clock = Clock::start();
        assert!(clock.unix_ns(before) <= clock.anchor_unix_ns);
    }
}
