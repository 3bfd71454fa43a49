//! The sessions of a shard with their subscriptions and items, and what is delivered to them.
//!
//! [`Clients`] owns the life cycle of sessions (`lifecycle`) and of subscriptions (`subscribe`). It
//! does not know requests, HTTP or other shards. Work on many items is spread over iterations, so
//! that no iteration of the event loop takes long.

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;
use weir_fanout::{
    ClassKey, Delivery, Interest, InterestChange, ItemName, ItemSubscription, ItemTable,
    MemberRemoval, MemberSlot, SchemaCache, SessionKey,
};
use weir_tlcp::codes::SessionCode;
use weir_tlcp::server::Subscription;

use super::adapter::ShardAdapter;
use super::context::ShardContext;
use super::drain::DrainSchedule;
use super::item_classes::SubscribedClasses;
use super::messages::PendingMessage;
use super::recoveries::Recoveries;
use super::session::Sessions;
use super::session_writer::SessionWriter;
use super::wire::Wire;
use crate::admission::SubscriptionUsage;
use crate::messages::InFlight;
use crate::metrics::ShardCounters;

/// Maximum number of items that one iteration joins or releases; about 2 ms.
pub(super) const ITEMS_PER_ITERATION: usize = 1_000;
/// Characters of an item group that take as long to resolve as one item takes to join.
pub(super) const TEXT_PER_ITEM: usize = 32;

/// Work on items in this iteration, and in later ones.
#[derive(Debug, Default)]
pub(super) struct ItemWork {
    /// Number of items joined and released in this iteration.
    pub(super) items: usize,
    /// Number of these items that are charged to the input budget of a peer, or to no peer.
    pub(super) charged: usize,
    /// Ended sessions that still have items.
    pub(super) ended_sessions: VecDeque<SessionKey>,
}

/// Sessions, subscriptions and items of a shard.
pub(super) struct Clients {
    pub(super) shared: Arc<ShardContext>,
    pub(super) sessions: Sessions,
    pub(super) items: ItemTable,
    pub(super) schemas: SchemaCache,
    pub(super) delivery: Delivery,
    pub(super) writer: SessionWriter,
    pub(super) counters: ShardCounters,
    pub(super) drain: Option<DrainSchedule>,
    pub(super) work: ItemWork,
    /// Client messages that wait for their result, with their shares of the memory.
    pub(super) pending_messages: Slab<(PendingMessage, InFlight)>,
    pub(super) classes: SubscribedClasses,
    /// Clients of events that wait for missed updates.
    pub(super) recoveries: Recoveries,
    /// Requests that wait for the remote adapter, if there is one.
    pub(super) adapter: Option<Box<ShardAdapter>>,
    /// Numbers and bytes that admission counts for the subscriptions and items of this shard.
    pub(super) held: SubscriptionUsage,
}

impl Clients {
    pub(super) fn new(shard: u16, shared: Arc<ShardContext>) -> Self {
        Self {
            adapter: (shared.adapter.clone())
                .map(|access| Box::new(ShardAdapter::new(shard, access))),
            delivery: Delivery::new(shared.limits.queue_bytes, shared.diff_bytes_per_second),
            writer: SessionWriter::new(&shared),
            shared,
            sessions: Sessions::of(shard),
            items: ItemTable::default(),
            schemas: SchemaCache::default(),
            counters: ShardCounters::default(),
            drain: None,
            work: ItemWork::default(),
            pending_messages: Slab::new(),
            classes: SubscribedClasses::default(),
            recoveries: Recoveries::default(),
            held: SubscriptionUsage::default(),
        }
    }

    /// Reports an interest to the ingest workers. It is sent before `SUBOK`, so every record
    /// written after `SUBOK` is covered. `is_new` means that the shard had no interest in the item.
    pub(super) fn report_interest(&mut self, item: ItemName, change: InterestChange, is_new: bool) {
        self.classes.note(&item, &change);
        let ((connection, name), shard) = (item, self.sessions.shard);
        let interest = Interest {
            name,
            shard,
            change,
        };
        self.shared.connections[usize::from(connection)].set_interest(interest, is_new);
    }

    /// Removes the items of a subscription from the item table.
    pub(super) fn release(
        &mut self,
        session: SessionKey,
        subscription: Subscription<ItemSubscription>,
    ) {
        let (sub_id, subscribed) = (subscription.sub_id, &subscription.handle);
        if let Some(entry) = self.sessions.any_mut(session) {
            let charged = subscribed.charged as usize;
            self.shared.admission.refund(entry.admission_id, charged);
        }
        for (slot, position) in subscribed.slots.iter().zip(1..) {
            if let Some(slot) = *slot {
                self.delivery.forget_item(session, (sub_id, position));
                self.recoveries.forget(session, (sub_id, position));
                self.release_item(slot, subscribed.class(sub_id, position));
            }
        }
        self.counters.subscriptions -= 1;
        self.count_held();
    }

    /// Removes one subscriber of an item from the item table.
    fn release_item(&mut self, slot: MemberSlot, class: ClassKey<'_>) {
        self.work.items += 1;
        let MemberRemoval { moved, change } = self.items.remove(slot, class);
        let neighbour =
            moved.and_then(|session| self.sessions.subscription_mut(session, class.sub_id));
        let index = class.position as usize - 1;
        if let Some(Some(moved)) = neighbour.and_then(|other| other.slots.get_mut(index)) {
            moved.member = slot.member;
        }
        if let Some((item, change)) = change {
            self.report_interest(item, change, false);
        }
    }

    /// Ends all subscriptions to items of a Kafka connection.
    pub(super) fn force_unsubscribe(&mut self, wire: &mut impl Wire, connection: u16) {
        let mut lines = Vec::new();
        for key in self.sessions.keys() {
            let Some(entry) = self.sessions.get_mut(key) else {
                continue;
            };
            let all = entry.core.subscriptions().iter();
            let of_connection = all.filter(|one| one.handle.connection == connection);
            let ids: Vec<u32> = of_connection.map(|one| one.sub_id).collect();
            if entry.event_form.is_some() && !ids.is_empty() {
                let text = "a record could not be read";
                self.end_session(wire, key, SessionCode::EXPIRED, text, false);
                continue;
            }
            lines.clear();
            for sub_id in ids {
                // The session has them all.
                let _ = self.unsubscribe(key, sub_id, &mut lines);
            }
            if !lines.is_empty() {
                self.notify(wire, key, &lines);
            }
        }
    }

    /// Releases items of ended sessions, up to the limit of this iteration.
    pub(super) fn tear_down(&mut self) {
        while self.work.items < ITEMS_PER_ITERATION {
            let Some(key) = self.work.ended_sessions.front().copied() else {
                break;
            };
            if !self.release_one(key) {
                self.work.ended_sessions.pop_front();
                self.sessions.forget(key);
            }
        }
        self.count_held();
    }

    /// Releases one item, or an empty subscription, of an ended session. Returns `false` if nothing
    /// is left.
    fn release_one(&mut self, key: SessionKey) -> bool {
        let Some(entry) = self.sessions.any_mut(key) else {
            return false;
        };
        let Some(subscription) = entry.core.subscriptions_mut().next() else {
            return false;
        };
        let (sub_id, subscribed) = (subscription.sub_id, &mut subscription.handle);
        let position = subscribed.slots.len() as u32;
        let Some(slot) = subscribed.slots.pop() else {
            entry.core.remove_subscription(sub_id);
            self.counters.subscriptions -= 1;
            self.work.items += 1;
            return true;
        };
        let (schema, diffs) = (Arc::clone(&subscribed.schema), subscribed.diffs.clone());
        let class = ClassKey {
            schema: &schema,
            sub_id,
            position,
            delivery: subscribed.delivery,
            diffs: diffs.as_ref(),
            form: subscribed.form,
        };
        if let Some(slot) = slot {
            self.recoveries.forget(key, (sub_id, position));
            self.release_item(slot, class);
        }
        true
    }
}
