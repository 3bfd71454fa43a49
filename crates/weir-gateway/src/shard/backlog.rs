//! Clients of mode MERGE that lag: what they have not got waits as state, not as bytes.
//!
//! While a client does not read, its items are marked here, each with the values the client saw
//! last. When it has read what was queued, the newest values are framed against those.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use weir_mapping::FrozenValues;
use weir_net::server::Offer;

use super::Shard;
use super::fanout::{delta_frame, full_frame};
use super::item::{ClassKey, Progress};
use super::session::SessionKey;
use super::wire::Wire;

/// One item of a subscription whose newest state the client has not got.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) sub_id: u32,
    /// The item's position in the subscription, from 1.
    pub(super) position: u32,
    /// What the client saw last, `None` if it must get all fields.
    pub(super) seen: Option<Arc<FrozenValues>>,
}

/// The items that wait, by session, in the order in which they fell behind; at most one entry per
/// subscribed item, so it is bounded by the subscriptions.
#[derive(Debug)]
pub(super) struct Backlog {
    sessions: HashMap<SessionKey, VecDeque<Behind>>,
}

impl Backlog {
    pub(super) fn new() -> Self {
        Self {
            sessions: HashMap::new(),
        }
    }

    /// Sessions with items that wait.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn push(&mut self, session: SessionKey, behind: Behind) {
        self.sessions.entry(session).or_default().push_back(behind);
    }

    fn put_back(&mut self, session: SessionKey, behind: Behind) {
        self.sessions.entry(session).or_default().push_front(behind);
    }

    fn pop(&mut self, session: SessionKey) -> Option<Behind> {
        let waiting = self.sessions.get_mut(&session)?;
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.sessions.remove(&session);
        }
        first
    }

    /// Forgets what waits for one subscription.
    pub(super) fn forget(&mut self, session: SessionKey, sub_id: u32) {
        if let Some(waiting) = self.sessions.get_mut(&session) {
            waiting.retain(|behind| behind.sub_id != sub_id);
            if waiting.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }
}

impl Shard {
    /// Sends the newest values of what waits for a session, as far as its connection takes them.
    pub(super) fn catch_up(&mut self, wire: &mut impl Wire, session: SessionKey) {
        while let Some(behind) = self.backlog.pop(session) {
            if self.tell_newest(wire, session, &behind) == Some(Offer::Behind) {
                return self.backlog.put_back(session, behind);
            }
        }
    }

    /// `None` if there is nothing to tell.
    fn tell_newest(
        &mut self,
        wire: &mut impl Wire,
        session: SessionKey,
        behind: &Behind,
    ) -> Option<Offer> {
        let entry = self.sessions.get_mut(session)?;
        let subscribed = &entry.core.subscription(behind.sub_id)?.handle;
        let place = (*subscribed.places.get(behind.position as usize - 1)?)?;
        let item = self.items.at_mut(place.slot)?;
        let newest = item.snapshot(&subscribed.schema).map(Arc::clone);
        let class = item.class_mut(ClassKey {
            schema: &subscribed.schema,
            sub_id: behind.sub_id,
            position: behind.position,
            delivery: subscribed.delivery,
        })?;
        let mut progress = Progress::InStep;
        let offer = match (&newest, &behind.seen) {
            (None, _) => {
                progress = Progress::New;
                None
            }
            (Some(newest), None) => Some(full_frame(class, newest, &mut self.line)),
            (Some(newest), Some(seen)) => delta_frame(class, seen, newest, &mut self.line),
        }
        .map(|frame| (self.courier).data(wire, entry, &frame, 1, class.delivery));
        match offer {
            Some(Offer::Queued) => {
                self.counters.updates_out += 1;
            }
            Some(Offer::Behind | Offer::Gone) => progress = Progress::Behind,
            None => self.counters.conflated += 1,
        }
        if let Some(member) = class.members.get_mut(place.member as usize) {
            member.progress = progress;
        }
        offer
    }
}
