//! Late subscriptions after a restart from stored offsets: reading started without them, so records
//! of their items may have passed.

use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;
use foldhash::{HashMap, HashMapExt};

/// Time after the first read from stored offsets in which subscriptions count as late.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of items whose records are counted, per worker.
const ITEMS_MAX: usize = 1 << 16;

/// Record counts by hash of the item name.
#[derive(Debug)]
pub(crate) struct PassedRecords {
    items: HashMap<u64, u32>,
    ends: Instant,
}

impl PassedRecords {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            items: HashMap::new(),
            ends: now + WINDOW,
        }
    }

    pub(crate) fn has_ended(&self, now: Instant) -> bool {
        now >= self.ends
    }

    pub(crate) fn note(&mut self, name: &str) {
        let has_room = self.items.len() < ITEMS_MAX;
        let hash = FixedState::default().hash_one(name);
        match self.items.get_mut(&hash) {
            Some(count) => *count = count.saturating_add(1),
            None if has_room => {
                self.items.insert(hash, 1);
            }
            None => {}
        }
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        let hash = FixedState::default().hash_one(name);
        self.items.get(&hash).copied().map_or(0, u64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_until_window_ends() {
        let start = Instant::now();
        let mut passed = PassedRecords::new(start);
        passed.note("a");
        passed.note("a");
        passed.note("b");
        assert_eq!(
            [passed.get("a"), passed.get("b"), passed.get("c")],
            [2, 1, 0]
        );
        assert!(!passed.has_ended(start + WINDOW - Duration::from_millis(1)));
        assert!(passed.has_ended(start + WINDOW));
    }

    #[test]
    fn items_over_limit_are_not_counted() {
        let mut passed = PassedRecords::new(Instant::now());
        for number in 0..ITEMS_MAX + 10 {
            passed.note(&number.to_string());
        }
        assert_eq!(passed.items.len(), ITEMS_MAX);
        passed.note("0");
        assert_eq!(passed.get("0"), 2);
    }
}
