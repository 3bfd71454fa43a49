//! Hashed timer wheel: thousands of coarse deadlines at a few nanoseconds each.
//!
//! Timers cannot be cancelled. On expiry the owner checks if the timer still applies, and sets it
//! again if it does. Every write moves a keepalive deadline, so cancelling would cost more than an
//! unnecessary expiry.

/// Milliseconds between two slots, the maximum delay of a timer.
const TICK_MS: u64 = 16;
/// Number of slots, a power of two; one revolution takes about 16 seconds.
const SLOTS: usize = 1024;

/// Timer wheel with payloads of type `T`.
#[derive(Debug)]
pub(crate) struct TimerWheel<T> {
    slots: Vec<Vec<(u64, T)>>,
    /// Tick up to which all entries have expired.
    tick: u64,
    len: usize,
    /// No entry lies in a slot before this tick. Not maintained when entries expire.
    earliest: u64,
}

impl<T> TimerWheel<T> {
    /// Creates an empty wheel that starts at `now_ms`.
    pub(crate) fn new(now_ms: u64) -> Self {
        let slots = std::iter::repeat_with(Vec::new).take(SLOTS).collect();
        Self {
            slots,
            tick: now_ms / TICK_MS,
            len: 0,
            earliest: 0,
        }
    }

    /// Sets a timer that expires at `at_ms` or up to one tick later, in the past at the next tick.
    pub(crate) fn set(&mut self, at_ms: u64, payload: T) {
        let tick = (at_ms.div_ceil(TICK_MS)).max(self.tick + 1);
        self.earliest = match self.len {
            0 => tick,
            _ => self.earliest.min(tick),
        };
        self.slots[slot_of(tick)].push((tick, payload));
        self.len += 1;
    }

    /// Passes the payload of every timer due at `now_ms` to `fire`.
    pub(crate) fn expire(&mut self, now_ms: u64, mut fire: impl FnMut(T)) {
        let target = now_ms / TICK_MS;
        // After a long pause one revolution visits every slot.
        let first = (self.tick + 1).max(target.saturating_sub(SLOTS as u64 - 1));
        for tick in first..=target {
            let slot = &mut self.slots[slot_of(tick)];
            let mut index = 0;
            while index < slot.len() {
                if slot[index].0 <= target {
                    let (_, payload) = slot.swap_remove(index);
                    self.len -= 1;
                    fire(payload);
                } else {
                    index += 1;
                }
            }
            if slot.is_empty() && slot.capacity() > 64 {
                slot.shrink_to(16);
            }
        }
        self.tick = self.tick.max(target);
    }

    /// Returns the milliseconds from `now_ms` to the next timer, `None` if there is none. The value
    /// can be too small for timers more than one revolution ahead, never too large.
    pub(crate) fn next_in_ms(&mut self, now_ms: u64) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        // Called once per iteration, so the slots are searched only when `earliest` has passed.
        if self.earliest <= self.tick {
            let ahead =
                (1..=SLOTS as u64).find(|ahead| !self.slots[slot_of(self.tick + ahead)].is_empty());
            self.earliest = self.tick + ahead.unwrap_or(SLOTS as u64);
        }
        Some((self.earliest * TICK_MS).saturating_sub(now_ms))
    }
}

fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fired(wheel: &mut TimerWheel<u32>, now_ms: u64) -> Vec<u32> {
        let mut all = Vec::new();
        wheel.expire(now_ms, |payload| all.push(payload));
        all.sort_unstable();
        all
    }

    #[test]
    fn timer_fires_once_and_not_early() {
        let mut wheel = TimerWheel::new(1_000);
        wheel.set(1_100, 1);
        assert!(fired(&mut wheel, 1_090).is_empty());
        assert_eq!(fired(&mut wheel, 1_100 + TICK_MS), [1]);
        assert!(fired(&mut wheel, 60_000).is_empty());
        assert!(wheel.len == 0);
    }

    #[test]
    fn timer_beyond_one_revolution_fires_on_time() {
        let mut wheel = TimerWheel::new(0);
        wheel.set(40_000, 7);
        assert!(fired(&mut wheel, 30_000).is_empty());
        assert_eq!(fired(&mut wheel, 40_016), [7]);
    }

    #[test]
    fn next_expiry_follows_set_and_expired_timers() {
        let mut wheel = TimerWheel::new(0);
        wheel.set(10_000, 1);
        assert_eq!(wheel.next_in_ms(0), Some(10_000));
        wheel.set(1_600, 2);
        assert_eq!(wheel.next_in_ms(0), Some(1_600));
        assert_eq!(fired(&mut wheel, 1_600), [2]);
        assert_eq!(wheel.next_in_ms(1_600), Some(8_400));
        assert_eq!(fired(&mut wheel, 10_000), [1]);
        assert_eq!(wheel.next_in_ms(10_000), None);
        wheel.set(12_800, 3);
        assert_eq!(wheel.next_in_ms(10_000), Some(2_800));
    }

    #[test]
    fn past_deadline_fires_at_next_tick() {
        let mut wheel = TimerWheel::new(5_000);
        wheel.set(10, 3);
        assert_eq!(fired(&mut wheel, 5_000 + 2 * TICK_MS), [3]);
    }

    proptest! {
        #[test]
        fn every_timer_fires_once_and_not_early(
            entries in proptest::collection::vec(0u64..100_000, 0..60),
            steps in proptest::collection::vec(1u64..30_000, 1..20),
        ) {
            let mut wheel = TimerWheel::new(0);
            for (index, at) in entries.iter().enumerate() {
                wheel.set(*at, index);
            }
            let mut now = 0;
            let mut seen = vec![0; entries.len()];
            for step in steps.iter().chain([&200_000]) {
                let waiting = entries.iter().zip(&seen).filter(|(_, seen)| **seen == 0);
                let first = waiting.map(|(at, _)| *at).min();
                let next = wheel.next_in_ms(now).map(|ahead| now + ahead);
                prop_assert_eq!(next.is_none(), first.is_none());
                prop_assert!(next <= first.map(|at| at.max(now) + 2 * TICK_MS));
                now += step;
                wheel.expire(now, |index| {
                    seen[index] += 1;
                    assert!(entries[index] <= now);
                });
                for (index, at) in entries.iter().enumerate() {
                    prop_assert!(seen[index] == 1 || at + 2 * TICK_MS > now);
                }
            }
            prop_assert!(seen.iter().all(|count| *count == 1));
        }
    }
}
