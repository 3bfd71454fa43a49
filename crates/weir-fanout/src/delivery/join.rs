//! Adds subscribers to items with their snapshots, and changes their frequency limits.

use std::sync::Arc;

use weir_tlcp::request::Snapshot;

use super::Delivery;
use crate::backlog::{LaggingItem, NEVER};
use crate::class::{ClassKey, MemberState};
use crate::delivery_mode::PayloadSource;
use crate::item::{Item, ItemName};
use crate::item_history::Retention;
use crate::item_table::{InterestUpdate, ItemTable};
use crate::keys::{MemberSlot, SessionKey};
use crate::limits::SessionLimits;
use crate::output::Subscriber;
use crate::queue::UpdateQueue;
use crate::subscription::ItemSubscription;

/// A session that joins an item.
#[derive(Debug, Clone, Copy)]
pub struct NewSubscriber<'a> {
    /// Key of the session.
    pub session: SessionKey,
    /// Name by which its client knows the item.
    pub shown: &'a str,
    /// Frame class that it joins.
    pub class: ClassKey<'a>,
    /// Data of the item that must be stored for later subscribers.
    pub retention: Retention,
    /// Snapshot that the client requested.
    pub snapshot: Snapshot,
    /// `true` if the client continues after a lost connection: it receives nothing before
    /// [`Delivery::send_missed`] or [`Delivery::restart`].
    pub is_held: bool,
}

impl Delivery {
    /// Adds a subscriber to an item and queues its snapshot. Returns the interest of the shard if
    /// it has grown. The subscription must exist in `session`.
    pub fn join(
        &mut self,
        session: &mut impl Subscriber,
        items: &mut ItemTable,
        name: &ItemName,
        subscriber: NewSubscriber<'_>,
    ) -> Option<InterestUpdate> {
        let class = subscriber.class;
        let (key, retention) = (subscriber.session, subscriber.retention);
        let subscribed = session.subscription_mut(class.sub_id)?;
        let (member_slot, change) = items.add(name, subscriber.shown, class, key, retention);
        if let Some(slot) = subscribed.slots.get_mut(class.position as usize - 1) {
            *slot = Some(member_slot);
        }
        let frequency_limit = subscribed.frequency_limit.as_ref();
        let has_frequency_limit = frequency_limit.is_some_and(|limit| limit.frequency.is_some());
        if let Some(item) = items.at_mut(member_slot.slot) {
            let members = item.class_mut(class).map(|found| &mut found.members);
            let index = member_slot.member as usize;
            if let Some(member) = members.and_then(|all| all.get_mut(index)) {
                member.has_frequency_limit = has_frequency_limit;
                if subscriber.is_held {
                    member.state = MemberState::Lagging;
                    self.hold(key, (class.sub_id, class.position));
                }
            }
        }
        if !subscriber.is_held {
            let member = (key, member_slot);
            self.begin_snapshot(session, items, member, class, subscriber.snapshot);
        }
        change
    }

    /// Queues the snapshot of a member that has received nothing yet.
    pub(super) fn begin_snapshot(
        &mut self,
        session: &impl Subscriber,
        items: &mut ItemTable,
        (key, slot): (SessionKey, MemberSlot),
        class: ClassKey<'_>,
        snapshot: Snapshot,
    ) {
        let Some(item) = items.at_mut(slot.slot).filter(|_| snapshot != Snapshot::No) else {
            return;
        };
        let plan = SnapshotPlan::of(session, item, class, snapshot);
        let members = item.class_mut(class).map(|found| &mut found.members);
        if let Some(member) = members.and_then(|all| all.get_mut(slot.member as usize)) {
            member.awaits_snapshot = plan.awaits;
            if let Some(lagging) = plan.lagging {
                member.state = MemberState::Lagging;
                self.backlog.push(key, lagging, plan.due_ms);
            }
        }
    }

    /// Changes the frequency limit of a subscription of a session; `None` is no limit.
    pub fn set_frequency(
        &mut self,
        subscribed: &mut ItemSubscription,
        items: &mut ItemTable,
        (session, sub_id): (SessionKey, u32),
        frequency: Option<f64>,
        now_ms: u64,
    ) {
        let frequency_limit = subscribed.frequency_limit.get_or_insert_default();
        frequency_limit.set_frequency(frequency, now_ms);
        for (index, slot) in subscribed.slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let class = subscribed.class(sub_id, index as u32 + 1);
            let item = items.at_mut(slot.slot);
            let members = item.and_then(|item| Some(&mut item.class_mut(class)?.members));
            if let Some(member) = members.and_then(|all| all.get_mut(slot.member as usize)) {
                member.has_frequency_limit = frequency.is_some();
            }
            self.backlog
                .retry_delayed(session, (sub_id, class.position));
        }
    }
}

/// Snapshot of a new subscriber.
struct SnapshotPlan {
    /// The part that can be sent now.
    lagging: Option<LaggingItem>,
    /// `true` if a part of the snapshot is outstanding.
    awaits: bool,
    /// Time from which the available part may be sent.
    due_ms: u64,
}

impl SnapshotPlan {
    /// Returns the snapshot of an item, as far as it is known.
    fn of(session: &impl Subscriber, item: &Item, class: ClassKey<'_>, asked: Snapshot) -> Self {
        let lagging = |queue| LaggingItem {
            at: (class.sub_id, class.position),
            seen: None,
            queue,
        };
        let queue = session.new_queue(class.sub_id, class.delivery);
        let Some(mut queue) = queue else {
            let known = item.snapshot(class.schema).is_some();
            return Self {
                lagging: known.then(|| lagging(None)),
                awaits: !known,
                due_ms: 0,
            };
        };
        let awaits = fill(&mut queue, item, class, asked);
        // Older updates must be sent first. Rows may come in any order before the end of the
        // snapshot.
        let is_delayed = awaits && class.delivery.payload_source() == PayloadSource::Event;
        Self {
            lagging: (queue.len() > 0).then(|| lagging(Some(queue))),
            awaits,
            due_ms: if is_delayed { NEVER } else { 0 },
        }
    }
}

/// Queues the snapshot of an item. Returns `true` if a part of it is outstanding.
fn fill(queue: &mut UpdateQueue, item: &Item, class: ClassKey<'_>, asked: Snapshot) -> bool {
    match class.delivery.payload_source() {
        PayloadSource::State => {
            let known = item.snapshot(class.schema);
            let values = known.into_iter().cloned();
            values.for_each(|values| queue.push_snapshot(values));
            return known.is_none();
        }
        PayloadSource::Event => {
            let most = match asked {
                Snapshot::Length(most) => most as usize,
                Snapshot::Yes | Snapshot::No => usize::MAX,
            };
            if let Some(history) = item.history() {
                let past = history.list(class.schema, most);
                if history.is_backfill_pending() {
                    queue.reserve_backfill(most.min(history.updates_max) - past.len());
                }
                past.into_iter()
                    .for_each(|values| queue.push_snapshot(values));
                queue.push_end();
                return history.is_backfill_pending();
            }
        }
        PayloadSource::Row => {
            let Some(table) = item.table() else {
                return false;
            };
            for row in table.rows() {
                queue.push_snapshot_row(Arc::clone(&row.key), Arc::clone(&row.values));
            }
            if table.in_snapshot() {
                return true;
            }
        }
    }
    queue.push_end();
    false
}
