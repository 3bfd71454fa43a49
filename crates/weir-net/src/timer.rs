//! A hashed timer wheel: thousands of coarse deadlines for a few nanoseconds each.
//!
//! Entries are never cancelled: whoever set one checks on expiry whether it still matters and sets
//! it anew. Keepalives are moved by every write, so cancelling would cost more than firing idle.

/// Milliseconds between two slots; deadlines are met at most this much late.
const TICK_MS: u64 = 16;
/// Slots of the wheel, a power of two: one turn is about 16 seconds.
const SLOTS: usize = 1024;

/// Deadlines with a payload of type `T`.
#[derive(Debug)]
pub struct TimerWheel<T> {
    slots: Vec<Vec<(u64, T)>>,
    /// The tick up to which all entries have been handed out.
    tick: u64,
    len: usize,
    /// No slot before this tick has an entry; what has been handed out says nothing.
    earliest: u64,
}

impl<T> TimerWheel<T> {
    /// An empty wheel that starts at `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        let slots = std::iter::repeat_with(Vec::new).take(SLOTS).collect();
        Self {
            slots,
            tick: now_ms / TICK_MS,
            len: 0,
            earliest: 0,
        }
    }

    /// Entries waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Asks for `payload` at `at_ms` or up to one tick later; a past instant means the next tick.
    pub fn set(&mut self, at_ms: u64, payload: T) {
        let tick = (at_ms.div_ceil(TICK_MS)).max(self.tick + 1);
        self.earliest = match self.len {
            0 => tick,
            _ => self.earliest.min(tick),
        };
        self.slots[slot_of(tick)].push((tick, payload));
        self.len += 1;
    }

    /// Hands every entry due at `now_ms` to `fire`.
    pub fn expire(&mut self, now_ms: u64, mut fire: impl FnMut(T)) {
        let target = now_ms / TICK_MS;
        // After a long pause one whole turn visits every slot; more turns would find nothing new.
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

    /// Milliseconds from `now_ms` to the next entry, `None` when nothing waits. May be early for
    /// entries more than one turn away, never late.
    pub fn next_in_ms(&mut self, now_ms: u64) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        // Loops ask once a turn, so slots are looked through only when the one known has passed.
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
    fn fires_once_at_or_after_its_instant() {
        let mut wheel = TimerWheel::new(1_000);
        wheel.set(1_100, 1);
        assert!(fired(&mut wheel, 1_090).is_empty());
        assert_eq!(fired(&mut wheel, 1_100 + TICK_MS), [1]);
        assert!(fired(&mut wheel, 60_000).is_empty());
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_deadline_beyond_one_turn_waits_for_its_turn() {
        let mut wheel = TimerWheel::new(0);
        wheel.set(40_000, 7);
        assert!(fired(&mut wheel, 30_000).is_empty());
        assert_eq!(fired(&mut wheel, 40_016), [7]);
    }

    #[test]
    fn the_next_instant_follows_what_is_set_and_what_has_fired() {
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
    fn a_past_deadline_fires_at_the_next_tick() {
        let mut wheel = TimerWheel::new(5_000);
        wheel.set(10, 3);
        assert_eq!(fired(&mut wheel, 5_000 + 2 * TICK_MS), [3]);
    }

    proptest! {
        #[test]
        fn every_entry_fires_exactly_once_and_never_early(
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
