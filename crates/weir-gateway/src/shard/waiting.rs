//! Sessions that wait for the WebSocket that binds them, for all shards: it may arrive at any of
//! them.
//!
//! An SDK whose WebSocket could not be opened once, as while a gateway restarts, creates all its
//! later sessions over HTTP and binds them on a WebSocket; until then such a session is no more
//! than its id. A session that has had its `LOOP` stays in its shard.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_tlcp::server::SessionId;

use super::session::{AdapterSet, SessionKey};

/// How long a session waits. SDKs bind at once and give up an attempt after 4 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A session that has never had a stream.
    New(AdapterSet),
    /// A session that a shard keeps.
    Unbound { shard: u16, session: SessionKey },
}

/// Ids that wait, at most so many; the next one is refused.
#[derive(Debug)]
pub(crate) struct WaitingRoom {
    capacity: usize,
    ids: Mutex<Ids>,
}

#[derive(Debug, Default)]
struct Ids {
    waiting: HashMap<String, (SessionId, Waiting)>,
    /// By age, with ids that have been claimed since.
    order: VecDeque<(Instant, SessionId)>,
}

impl WaitingRoom {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ids: Mutex::default(),
        }
    }

    /// Lets an id wait from `now` on; false when there is no room.
    pub(super) fn admit(&self, id: SessionId, waiting: Waiting, now: Instant) -> bool {
        let mut ids = self.lock();
        ids.expire(now);
        if ids.order.len() >= self.capacity {
            return false;
        }
        ids.order.push_back((now, id));
        ids.waiting.insert(id.as_str().to_owned(), (id, waiting));
        true
    }

    /// Takes an id out, for the one stream that may bind it.
    pub(super) fn claim(&self, id: &str, now: Instant) -> Option<(SessionId, Waiting)> {
        let mut ids = self.lock();
        ids.expire(now);
        ids.waiting.remove(id)
    }

    /// Whether an id waits.
    pub(super) fn has(&self, id: &str, now: Instant) -> bool {
        let mut ids = self.lock();
        ids.expire(now);
        ids.waiting.contains_key(id)
    }

    fn lock(&self) -> MutexGuard<'_, Ids> {
        // No code that can panic runs under the lock.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ids {
    /// Forgets the oldest ids as far as they are claimed or too old.
    fn expire(&mut self, now: Instant) {
        while let Some((since, id)) = self.order.front() {
            let young = now.saturating_duration_since(*since) < PATIENCE;
            if young && self.waiting.contains_key(id.as_str()) {
                return;
            }
            self.waiting.remove(id.as_str());
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Waiting = Waiting::New(AdapterSet::Served);

    fn id(number: u8) -> SessionId {
        SessionId::from_random(&[number; 16])
    }

    #[test]
    fn an_id_is_claimed_once_and_not_late() {
        let room = WaitingRoom::new(9);
        let now = Instant::now();
        assert!(room.admit(id(1), NEW, now) && room.admit(id(2), NEW, now));
        assert!(room.has(id(1).as_str(), now));
        assert_eq!(room.claim(id(1).as_str(), now), Some((id(1), NEW)));
        assert_eq!(room.claim(id(1).as_str(), now), None);
        assert_eq!(room.claim(id(2).as_str(), now + PATIENCE), None);
    }

    #[test]
    fn a_full_room_takes_nobody_until_one_leaves() {
        let room = WaitingRoom::new(1);
        let now = Instant::now();
        assert!(room.admit(id(1), NEW, now));
        assert!(!room.admit(id(2), NEW, now));
        room.claim(id(1).as_str(), now);
        assert!(room.admit(id(2), NEW, now));
        assert!(room.admit(id(3), NEW, now + PATIENCE));
    }
}
