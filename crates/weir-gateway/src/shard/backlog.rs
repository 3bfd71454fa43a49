//! What clients have not got yet: values, not bytes, by session and item.
//!
//! While a client does not read, or may not be sent to yet, its items are marked here, each with the
//! values the client saw last. What is sent later is framed against those.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use weir_mapping::FrozenValues;

use super::queue::{Queue, Shed};
use super::session::SessionKey;

/// One item of a subscription of which the client has not got everything.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) sub_id: u32,
    /// The item's position in the subscription, from 1.
    pub(super) position: u32,
    /// What the client saw last, `None` if it must get all fields.
    pub(super) seen: Option<Arc<FrozenValues>>,
    /// What it has not got, in order; `None`: whatever is newest when it can be sent.
    pub(super) queue: Option<Box<Queue>>,
}

/// The items of one session, in the order in which they fell behind.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) items: VecDeque<Behind>,
    /// When its alarm rings; `u64::MAX` without one.
    alarm_ms: u64,
}

/// The items that wait; at most one entry per subscribed item, and per session as many bytes of
/// updates as may wait.
#[derive(Debug)]
pub(super) struct Backlog {
    sessions: HashMap<SessionKey, Waiting>,
    queue_bytes: usize,
}

impl Backlog {
    pub(super) fn new(queue_bytes: usize) -> Self {
        Self {
            sessions: HashMap::new(),
            queue_bytes,
        }
    }

    /// Sessions with items that wait.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn push(&mut self, session: SessionKey, behind: Behind) {
        let waiting = self.sessions.entry(session).or_insert_with(|| Waiting {
            items: VecDeque::new(),
            alarm_ms: u64::MAX,
        });
        waiting.items.push_back(behind);
    }

    /// Adds to what waits for an item that is behind; `room` is how many bytes its queue may have.
    pub(super) fn append(
        &mut self,
        session: SessionKey,
        (sub_id, position): (u32, u32),
        add: impl FnOnce(&mut Queue, usize) -> Shed,
    ) -> Shed {
        let Some(waiting) = self.sessions.get_mut(&session) else {
            return Shed::default();
        };
        let all = waiting.bytes();
        let mut items = waiting.items.iter_mut();
        let found = items.find(|one| one.sub_id == sub_id && one.position == position);
        let Some(queue) = found.and_then(|one| one.queue.as_mut()) else {
            return Shed::default();
        };
        let others = all - queue.bytes();
        add(queue, self.queue_bytes.saturating_sub(others))
    }

    /// Whether the session's alarm must be set to an earlier instant.
    pub(super) fn wake_at(&mut self, session: SessionKey, at_ms: u64) -> bool {
        let waiting = self.sessions.get_mut(&session);
        let earlier = waiting.filter(|waiting| at_ms < waiting.alarm_ms);
        earlier.map(|waiting| waiting.alarm_ms = at_ms).is_some()
    }

    /// The session's alarm has rung.
    pub(super) fn rang(&mut self, session: SessionKey) {
        if let Some(waiting) = self.sessions.get_mut(&session) {
            waiting.alarm_ms = u64::MAX;
        }
    }

    /// Takes out all that waits for a session.
    pub(super) fn take(&mut self, session: SessionKey) -> Option<Waiting> {
        self.sessions.remove(&session)
    }

    pub(super) fn put_back(&mut self, session: SessionKey, waiting: Waiting) {
        if !waiting.items.is_empty() {
            self.sessions.insert(session, waiting);
        }
    }

    /// Forgets what waits for one subscription.
    pub(super) fn forget(&mut self, session: SessionKey, sub_id: u32) {
        if let Some(waiting) = self.sessions.get_mut(&session) {
            waiting.items.retain(|behind| behind.sub_id != sub_id);
            if waiting.items.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        let queues = self.items.iter().filter_map(|one| one.queue.as_ref());
        queues.map(|queue| queue.bytes()).sum()
    }
}
