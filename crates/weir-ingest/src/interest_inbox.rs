//! Interests that the shards send to one ingest worker. An interest states that a shard (one event
//! loop of the gateway) needs the updates of an item, or no longer needs them.
//!
//! Sending never waits for the worker and never fails. A shard's latest interest in an item
//! replaces its earlier one, so the size of the inbox is bounded by the number of items that shards
//! need or that the worker still serves.

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
    /// `true` if there may be interests.
    filled: AtomicBool,
    inner: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    closed: bool,
    /// Interests by name of the item and number of the shard.
    interests: HashMap<(Arc<str>, u16), QueuedInterest>,
}

#[derive(Debug)]
struct QueuedInterest {
    interest: Interest,
    /// `true` if the reader has not received any interest of this shard in the item. Then a
    /// withdrawal removes this entry, and the reader receives neither.
    is_unread: bool,
}

impl InterestInbox {
    /// Adds an interest. `is_first`: the shard had no interest in the item before.
    pub fn put(&self, interest: Interest, is_first: bool) {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return;
        }
        let is_withdrawal = interest.subscribed().is_none();
        let key = (Arc::clone(&interest.name), interest.shard);
        match inner.interests.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(QueuedInterest {
                    interest,
                    is_unread: is_first,
                });
            }
            Entry::Occupied(entry) if is_withdrawal && entry.get().is_unread => {
                entry.remove();
            }
            Entry::Occupied(mut entry) => entry.get_mut().interest = interest,
        }
        self.filled.store(true, Ordering::Release);
    }

    /// Removes all queued interests and calls `reader` for each. The worker must call this before
    /// it maps records that were written after an interest was added. Shards can add interests
    /// while `reader` runs.
    pub fn take(&self, mut reader: impl FnMut(Interest)) {
        if !self.filled.load(Ordering::Acquire) {
            return;
        }
        let interests = {
            let mut inner = lock(&self.inner);
            self.filled.store(false, Ordering::Relaxed);
            std::mem::take(&mut inner.interests)
        };
        for (_, queued) in interests {
            reader(queued.interest);
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

    fn taken(inbox: &InterestInbox) -> Vec<String> {
        let mut taken = Vec::new();
        inbox.take(|interest| {
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
        let inbox = InterestInbox::default();
        assert!(taken(&inbox).is_empty());
        inbox.put(subscribe("a", 1), true);
        inbox.put(subscribe("a", 2), false);
        inbox.put(subscribe("b", 3), true);
        assert_eq!(taken(&inbox), ["a 2", "b 3"]);
        assert!(taken(&inbox).is_empty());
        inbox.put(unsubscribe("a"), false);
        inbox.put(subscribe("a", 7), true);
        inbox.put(unsubscribe("a"), false);
        assert_eq!(taken(&inbox), ["no a"], "the reader has received a before");
    }

    #[test]
    fn cancelled_interest_is_removed() {
        let inbox = InterestInbox::default();
        for number in 0..1000 {
            let name = format!("item{number}");
            inbox.put(subscribe(&name, number), true);
            inbox.put(unsubscribe(&name), false);
        }
        assert!(taken(&inbox).is_empty());
        assert_eq!(inbox.inner.lock().expect("not poisoned").interests.len(), 0);
    }

    #[test]
    fn closed_inbox_drops_interests() {
        let inbox = InterestInbox::default();
        inbox.put(subscribe("a", 1), true);
        inbox.close();
        inbox.put(subscribe("b", 1), true);
        assert!(taken(&inbox).is_empty());
    }
}
