//! Wishes on their way from the shards to one ingest worker.
//!
//! Nothing waits and nothing is refused: the newest interest about an item replaces the older one, so the
//! box holds no more than the items that shards want or that its reader still has.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::{HashMap, HashMapExt};

use crate::interest::Interest;

/// Written by shards, read by one worker. The lock is taken only when there is something to read.
#[derive(Debug)]
pub(crate) struct InterestInbox {
    filled: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    closed: bool,
    interests: HashMap<(Arc<str>, u16), QueuedInterests>,
}

#[derive(Debug)]
struct QueuedInterests {
    interest: Interest,
    /// The reader has not heard of this shard's interest yet, so that taking it back says nothing.
    is_unread: bool,
}

impl InterestInbox {
    pub(crate) fn new() -> Self {
        Self {
            filled: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                closed: false,
                interests: HashMap::new(),
            }),
        }
    }

    /// Leaves a interest. `first` tells that the shard wants an item it did not want before.
    pub(crate) fn put(&self, interest: Interest, first: bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.closed {
            return;
        }
        let withdrawn = matches!(interest, Interest::Unsubscribe { .. });
        match inner.interests.entry((Arc::clone(interest.name()), interest.shard())) {
            Entry::Vacant(entry) => {
                let is_unread = first;
                entry.insert(QueuedInterests { interest, is_unread });
            }
            Entry::Occupied(entry) if withdrawn && entry.get().is_unread => {
                entry.remove();
            }
            Entry::Occupied(mut entry) => entry.get_mut().interest = interest,
        }
        self.filled.store(true, Ordering::Release);
    }

    /// Hands over what waits. A record that was written after a interest had been left must not be
    /// looked at before this is called. Shards are not kept waiting meanwhile.
    pub(crate) fn take(&self, mut reader: impl FnMut(Interest)) {
        if !self.filled.load(Ordering::Acquire) {
            return;
        }
        let interests = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            self.filled.store(false, Ordering::Relaxed);
            std::mem::take(&mut inner.interests)
        };
        for (_, waiting) in interests {
            reader(waiting.interest);
        }
    }

    /// The reader has ended: interests are dropped from now on.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.closed = true;
        inner.interests = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use weir_mapping::FieldSet;

    use super::*;
    use crate::interest::ItemKey;

    fn subscribe(name: &str, slot: u32) -> Interest {
        Interest::Subscribe {
            name: name.into(),
            shard: 0,
            item: ItemKey { slot, epoch: 1 },
            fields: FieldSet::all(1),
            rows: None,
            history: None,
        }
    }

    fn unsubscribe(name: &str) -> Interest {
        Interest::Unsubscribe {
            name: name.into(),
            shard: 0,
            item: ItemKey { slot: 0, epoch: 1 },
        }
    }

    fn taken(interests: &InterestInbox) -> Vec<String> {
        let mut taken = Vec::new();
        interests.take(|interest| {
            taken.push(match interest {
                Interest::Subscribe { name, item, .. } => format!("{name} {}", item.slot),
                Interest::Unsubscribe { name, .. } => format!("no {name}"),
            });
        });
        taken.sort();
        taken
    }

    #[test]
    fn the_newest_wish_about_an_item_is_read_once() {
        let interests = InterestInbox::new();
        assert!(taken(&interests).is_empty());
        interests.put(subscribe("a", 1), true);
        interests.put(subscribe("a", 2), false);
        interests.put(subscribe("b", 3), true);
        assert_eq!(taken(&interests), ["a 2", "b 3"]);
        assert!(taken(&interests).is_empty());
        interests.put(unsubscribe("a"), false);
        interests.put(subscribe("a", 7), true);
        interests.put(unsubscribe("a"), false);
        assert_eq!(taken(&interests), ["no a"], "the reader knows a since before");
    }

    #[test]
    fn an_interest_nobody_heard_of_leaves_nothing_behind() {
        let interests = InterestInbox::new();
        for number in 0..1000 {
            let name = format!("item{number}");
            interests.put(subscribe(&name, number), true);
            interests.put(unsubscribe(&name), false);
        }
        assert!(taken(&interests).is_empty());
        assert_eq!(interests.inner.lock().expect("not poisoned").interests.len(), 0);
    }

    #[test]
    fn after_the_reader_has_ended_nothing_is_kept() {
        let interests = InterestInbox::new();
        interests.put(subscribe("a", 1), true);
        interests.close();
        interests.put(subscribe("b", 1), true);
        assert!(taken(&interests).is_empty());
    }
}
