//! Interests sent by the shards to one ingest worker.
//!
//! Sending never waits for the worker and never fails. The latest interest in an item replaces an
//! earlier one, so the size of the inbox is bounded by the number of items that shards need or the
//! worker still has.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::HashMap;
use weir_fanout::Interest;

use weir_net::lock;

/// An inbox with several writers (shards) and one reader (worker). The reader takes the lock only
/// if the inbox is not empty.
#[derive(Debug, Default)]
pub struct InterestInbox {
    filled: AtomicBool,
    inner: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    closed: bool,
    interests: HashMap<(Arc<str>, u16), QueuedInterests>,
}

#[derive(Debug)]
struct QueuedInterests {
    interest: Interest,
    /// `true` if the reader has not received any interest of this shard in the item. Then a
    /// withdrawal only removes this one.
    is_unread: bool,
}

impl InterestInbox {
    /// Adds an interest. `first`: the shard had no interest in the item before.
    pub fn put(&self, interest: Interest, first: bool) {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return;
        }
        let withdrawn = interest.subscribed().is_none();
        let key = (Arc::clone(&interest.name), interest.shard);
        match inner.interests.entry(key) {
            Entry::Vacant(entry) => {
                let is_unread = first;
                entry.insert(QueuedInterests {
                    interest,
                    is_unread,
                });
            }
            Entry::Occupied(entry) if withdrawn && entry.get().is_unread => {
                entry.remove();
            }
            Entry::Occupied(mut entry) => entry.get_mut().interest = interest,
        }
        self.filled.store(true, Ordering::Release);
    }

    /// Calls `reader` for all pending interests. Must be called before mapping records that were
    /// written after an interest was added. Shards can add interests while `reader` runs.
    pub fn take(&self, mut reader: impl FnMut(Interest)) {
        if !self.filled.load(Ordering::Acquire) {
            return;
        }
        let interests = {
            let mut inner = lock(&self.inner);
            self.filled.store(false, Ordering::Relaxed);
            std::mem::take(&mut inner.interests)
        };
        for (_, waiting) in interests {
            reader(waiting.interest);
        }
    }

    /// Closes the inbox because the reader has ended; later interests are dropped.
    pub fn close(&self) {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        inner.interests = HashMap::default();
    }
}

#[cfg(test)]
mod tests {
    use weir_fanout::{InterestChange, ItemInterest, ItemKey};
    use weir_mapping::FieldSet;

    use super::*;

    fn subscribe(name: &str, slot: u32) -> Interest {
        let interest = ItemInterest {
            item: ItemKey { slot, epoch: 1 },
            fields: FieldSet::all(1),
            rows: None,
            history: None,
            positions: false,
        };
        Interest {
            name: name.into(),
            shard: 0,
            change: InterestChange::Subscribe(interest),
        }
    }

    fn unsubscribe(name: &str) -> Interest {
        Interest {
            name: name.into(),
            shard: 0,
            change: InterestChange::Unsubscribe(ItemKey { slot: 0, epoch: 1 }),
        }
    }

    fn taken(interests: &InterestInbox) -> Vec<String> {
        let mut taken = Vec::new();
        interests.take(|interest| {
            let name = &interest.name;
            taken.push(match interest.subscribed() {
                Some(wanted) => format!("{name} {}", wanted.item.slot),
                None => format!("no {name}"),
            });
        });
        taken.sort();
        taken
    }

    #[test]
    fn latest_interest_in_item_is_read_once() {
        let interests = InterestInbox::default();
        assert!(taken(&interests).is_empty());
        interests.put(subscribe("a", 1), true);
        interests.put(subscribe("a", 2), false);
        interests.put(subscribe("b", 3), true);
        assert_eq!(taken(&interests), ["a 2", "b 3"]);
        assert!(taken(&interests).is_empty());
        interests.put(unsubscribe("a"), false);
        interests.put(subscribe("a", 7), true);
        interests.put(unsubscribe("a"), false);
        assert_eq!(taken(&interests), ["no a"], "the reader has a already");
    }

    #[test]
    fn cancelled_interest_is_removed() {
        let interests = InterestInbox::default();
        for number in 0..1000 {
            let name = format!("item{number}");
            interests.put(subscribe(&name, number), true);
            interests.put(unsubscribe(&name), false);
        }
        assert!(taken(&interests).is_empty());
        assert_eq!(
            interests
                .inner
                .lock()
                .expect("not poisoned")
                .interests
                .len(),
            0
        );
    }

    #[test]
    fn closed_inbox_drops_interests() {
        let interests = InterestInbox::default();
        interests.put(subscribe("a", 1), true);
        interests.close();
        interests.put(subscribe("b", 1), true);
        assert!(taken(&interests).is_empty());
    }
}
