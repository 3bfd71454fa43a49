//! Spreads connection attempts evenly, so that neither the start of a run nor the return of a
//! broker causes a burst.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::error::LeanError;

#[derive(Debug)]
pub(super) struct ConnectPacer {
    /// Earliest time of the next attempt; `None` before the first.
    next: Cell<Option<Instant>>,
    step: Duration,
}

impl ConnectPacer {
    /// Creates a limit of `per_second` attempts; 0 counts as 1.
    pub(super) fn new(per_second: usize) -> Self {
        let per_second = u32::try_from(per_second).unwrap_or(u32::MAX).max(1);
        Self {
            next: Cell::new(None),
            step: Duration::from_secs(1) / per_second,
        }
    }

    /// Waits until the caller may connect.
    pub(super) async fn wait(&self) {
        tokio::time::sleep_until(self.slot(Instant::now())).await;
    }

    /// Returns the time at which a caller may connect. Unused attempts do not accumulate: after a
    /// pause, the rate starts again from `now`.
    fn slot(&self, now: Instant) -> Instant {
        let slot = self.next.get().map_or(now, |next| next.max(now));
        self.next.set(Some(slot + self.step));
        slot
    }
}

/// Increasing pauses between attempts of one consumer.
#[derive(Debug)]
pub(super) struct Backoff {
    pause: Duration,
    /// Differs between consumers, so that they do not reconnect at the same time.
    spread: Duration,
}

impl Backoff {
    pub(super) fn new(consumer: usize) -> Self {
        let spread = (consumer as u64).wrapping_mul(7919) % 50;
        Self {
            pause: Duration::ZERO,
            spread: Duration::from_millis(spread),
        }
    }

    pub(super) fn reset(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// Waits after `error`: longer after a rejection, because brokers may lock out a user after
    /// many failed logins.
    pub(super) async fn wait(&mut self, error: &LeanError) {
        let (min, max) = match error.is_rejection() {
            true => (REJECTION_PAUSE_MIN, REJECTION_PAUSE_MAX),
            false => (PAUSE_MIN, PAUSE_MAX),
        };
        tokio::time::sleep(self.next(min, max)).await;
    }

    fn next(&mut self, min: Duration, max: Duration) -> Duration {
        self.pause = (self.pause * 2).clamp(min, max);
        self.pause + self.spread
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const REJECTION_PAUSE_MIN: Duration = Duration::from_secs(1);
const REJECTION_PAUSE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_slots_do_not_accumulate() {
        let pacer = ConnectPacer::new(1000);
        let start = Instant::now();
        let step = Duration::from_millis(1);
        assert_eq!(pacer.slot(start), start);
        assert_eq!(pacer.slot(start), start + step);
        assert_eq!(pacer.slot(start), start + 2 * step);
        let later = start + Duration::from_secs(5);
        assert_eq!(pacer.slot(later), later);
        assert_eq!(pacer.slot(later), later + step);
    }

    #[test]
    fn backoff_grows_to_maximum_and_resets() {
        let mut backoff = Backoff::new(0);
        let pauses: Vec<_> = (0..8)
            .map(|_| backoff.next(PAUSE_MIN, PAUSE_MAX).as_millis())
            .collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        backoff.reset();
        assert_eq!(backoff.next(PAUSE_MIN, PAUSE_MAX), PAUSE_MIN);
        assert!(Backoff::new(3).next(PAUSE_MIN, PAUSE_MAX) < PAUSE_MIN + Duration::from_millis(50));
    }
}
