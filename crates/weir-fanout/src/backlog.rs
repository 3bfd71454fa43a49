//! Items with queued updates, as values and not as bytes, by session and item.
//!
//! While a client does not read, or a limit delays its updates, its items are stored here, each
//! with the values that the client received last. Later updates are encoded as deltas to those. The
//! cost of an operation does not depend on the number of queued updates: totals are maintained,
//! items are found by hash and sent in the order of their due times.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use weir_mapping::FrozenValues;

use super::keys::{ItemAt, SessionKey};
use super::queue::{OverflowCounts, UpdateQueue};
use super::work::visit;

/// Due time of an item that waits for [`Backlog::release`].
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct LaggingItem {
    pub(crate) at: ItemAt,
    /// Values that the client received last; `None` if the next update must have all fields.
    pub(crate) seen: Option<Arc<FrozenValues>>,
    /// Unsent updates in order; `None` if only the latest value is sent.
    pub(crate) queue: Option<Box<UpdateQueue>>,
}

impl LaggingItem {
    fn bytes(&self) -> usize {
        visit();
        self.queue.as_ref().map_or(0, |queue| queue.bytes())
    }
}

/// Due time of an item, and a number that orders items with the same due time.
type SendOrder = (u64, u64);

#[derive(Debug, Default)]
pub(crate) struct LaggingItems {
    items: HashMap<ItemAt, (SendOrder, LaggingItem)>,
    order: BTreeSet<(SendOrder, ItemAt)>,
    last_number: u64,
    bytes: usize,
    /// Time of the session's timer.
    timer_ms: Option<u64>,
}

/// Lagging items of all sessions: at most one entry per subscribed item, and at most `queue_bytes`
/// of updates per session.
#[derive(Debug)]
pub(crate) struct Backlog {
    sessions: HashMap<SessionKey, LaggingItems>,
    queue_bytes: usize,
}

impl Backlog {
    pub(crate) fn new(queue_bytes: usize) -> Self {
        Self {
            sessions: HashMap::new(),
            queue_bytes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn has(&self, session: SessionKey) -> bool {
        self.sessions.contains_key(&session)
    }

    pub(crate) fn push(&mut self, session: SessionKey, lagging: LaggingItem, due_ms: u64) {
        let waiting = self.sessions.entry(session);
        let waiting = waiting.or_default();
        waiting.push(lagging, due_ms);
    }

    /// Changes the queue of an item. `add` gets the maximum number of bytes of that queue.
    pub(crate) fn append(
        &mut self,
        session: SessionKey,
        at: ItemAt,
        add: impl FnOnce(&mut UpdateQueue, usize) -> OverflowCounts,
    ) -> OverflowCounts {
        let Some(waiting) = self.sessions.get_mut(&session) else {
            return OverflowCounts::default();
        };
        let Some((_, lagging)) = waiting.items.get_mut(&at) else {
            return OverflowCounts::default();
        };
        let before = lagging.bytes();
        let Some(queue) = &mut lagging.queue else {
            return OverflowCounts::default();
        };
        let others = waiting.bytes - before;
        let overflow = add(queue, self.queue_bytes.saturating_sub(others));
        waiting.bytes = others + lagging.bytes();
        overflow
    }

    /// Makes an item due at `due_ms`, if that is earlier than before and its due time is not
    /// [`NEVER`].
    pub(crate) fn advance_due(&mut self, session: SessionKey, at: ItemAt, due_ms: u64) {
        if let Some(waiting) = self.sessions.get_mut(&session) {
            let known = waiting.items.get(&at);
            if known.is_some_and(|(send_order, _)| due_ms < send_order.0 && send_order.0 != NEVER) {
                waiting.set_due(at, due_ms);
            }
        }
    }

    /// Makes an item due that waited for its backfill, after `complete` has completed its queue.
    pub(crate) fn release(
        &mut self,
        session: SessionKey,
        at: ItemAt,
        complete: impl FnOnce(&mut UpdateQueue),
    ) {
        if let Some(waiting) = self.sessions.get_mut(&session) {
            let known = waiting.items.get_mut(&at);
            if let Some(queue) = known.and_then(|(_, lagging)| lagging.queue.as_mut()) {
                complete(queue);
            }
            waiting.set_due(at, 0);
        }
    }

    /// Makes an item due at once, after a change of its frequency limit.
    pub(crate) fn retry_delayed(&mut self, session: SessionKey, at: ItemAt) {
        let waiting = self.sessions.get_mut(&session);
        let lagging = waiting.and_then(|waiting| waiting.items.get_mut(&at));
        if let Some(queue) = lagging.and_then(|(_, lagging)| lagging.queue.as_mut()) {
            queue.retry_delayed();
        }
        self.advance_due(session, at, 0);
    }

    /// Moves the timer of a session forward to `at_ms`. Returns `false` if it fires earlier
    /// already.
    pub(crate) fn wake_at(&mut self, session: SessionKey, at_ms: u64) -> bool {
        let waiting = self.sessions.get_mut(&session);
        let is_later = |timer_ms| at_ms < timer_ms;
        let later = waiting.filter(|waiting| waiting.timer_ms.is_none_or(is_later));
        later
            .map(|waiting| waiting.timer_ms = Some(at_ms))
            .is_some()
    }

    pub(crate) fn on_fired(&mut self, session: SessionKey) {
        if let Some(waiting) = self.sessions.get_mut(&session) {
            waiting.timer_ms = None;
        }
    }

    pub(crate) fn take(&mut self, session: SessionKey) -> Option<LaggingItems> {
        self.sessions.remove(&session)
    }

    pub(crate) fn put_back(&mut self, session: SessionKey, waiting: LaggingItems) {
        if !waiting.items.is_empty() {
            self.sessions.insert(session, waiting);
        }
    }

    pub(crate) fn remove(&mut self, session: SessionKey, at: ItemAt) {
        if let Some(waiting) = self.sessions.get_mut(&session) {
            waiting.remove(at);
            if waiting.items.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }
}

impl LaggingItems {
    fn push(&mut self, lagging: LaggingItem, due_ms: u64) {
        let at = lagging.at;
        self.remove(at);
        self.last_number += 1;
        let send_order = (due_ms, self.last_number);
        self.bytes += lagging.bytes();
        self.order.insert((send_order, at));
        self.items.insert(at, (send_order, lagging));
    }

    fn remove(&mut self, at: ItemAt) {
        if let Some((send_order, lagging)) = self.items.remove(&at) {
            self.order.remove(&(send_order, at));
            self.bytes -= lagging.bytes();
        }
    }

    fn set_due(&mut self, at: ItemAt, due_ms: u64) {
        if let Some((send_order, _)) = self.items.get_mut(&at) {
            self.order.remove(&(*send_order, at));
            self.last_number += 1;
            *send_order = (due_ms, self.last_number);
            self.order.insert((*send_order, at));
        }
    }

    /// Returns `true` if one item is queued.
    pub(crate) fn has_one(&self) -> bool {
        self.items.len() == 1
    }

    pub(crate) fn next_ms(&self) -> u64 {
        self.order.first().map_or(NEVER, |((due_ms, _), _)| *due_ms)
    }

    /// Calls `send` for the first item, if it is due.
    ///
    /// `send` returns the time from which the rest of the item may be sent, or `None` if nothing is
    /// left. It returns an error if nothing of the session may be sent; then the item keeps its
    /// position.
    pub(crate) fn send_first<E>(
        &mut self,
        now_ms: u64,
        send: impl FnOnce(&mut LaggingItem) -> Result<Option<u64>, E>,
    ) -> Option<Result<(), E>> {
        let (_, at) = *self.order.first().filter(|((due, _), _)| *due <= now_ms)?;
        let (_, lagging) = self.items.get_mut(&at)?;
        let before = lagging.bytes();
        let sent = send(lagging);
        self.bytes = self.bytes - before + lagging.bytes();
        Some(sent.map(|rest| match rest {
            None => self.remove(at),
            Some(due_ms) => self.set_due(at, due_ms),
        }))
    }
}

#[cfg(test)]
mod tests;
