//! Clients that continue after a lost connection: positions of updates, and updates that such
//! clients have missed.
//!
//! A member of such a client is held: it receives nothing until its missed updates are known. Then
//! it gets them, and live updates after them.

use std::sync::Arc;

use weir_mapping::{CommandEvent, FieldSet, FrozenValues};
use weir_tlcp::request::Snapshot;

use super::Delivery;
use crate::backlog::{LaggingItem, NEVER};
use crate::class::{ClassKey, MemberState};
use crate::delivery_mode::{DeliveryMode, PayloadSource};
use crate::interest::{ItemKey, RowTableConfig};
use crate::item::Item;
use crate::item_table::ItemTable;
use crate::keys::{ItemAt, SessionKey};
use crate::limits::SessionLimits;
use crate::output::{Output, SessionTable, Subscriber};
use crate::positions::{PartitionLayout, PositionReport, RecordPosition};
use crate::queue::UpdateQueue;

/// An update that a client has missed.
#[derive(Debug, Clone)]
pub struct MissedUpdate {
    /// Values of the record.
    pub values: Arc<FrozenValues>,
    /// Fields that were read.
    pub fields: Arc<FieldSet>,
}

impl Delivery {
    /// Queues an update of a record with a known position, as [`Self::fan_out`].
    #[allow(
        clippy::too_many_arguments,
        reason = "those of `fan_out`, and the position"
    )]
    pub fn fan_out_at<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        key: ItemKey,
        (connection, record): (u16, RecordPosition),
        update: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) -> u64 {
        let is_known = self.positions.advance(connection, record);
        let id = is_known.then(|| self.positions.id(connection)).flatten();
        self.encoder.set_id(id);
        let sent = self.fan_out(output, sessions, items, key, update, extracted);
        self.encoder.set_id(None);
        sent
    }

    /// Takes over the positions of a reader.
    pub fn report_positions(&mut self, report: &PositionReport) {
        self.positions.report(report);
    }

    /// Returns the partitions of a connection and the next offset of each, as far as its updates
    /// have been fanned out.
    pub fn position(&self, connection: u16) -> Option<(&Arc<PartitionLayout>, &[i64])> {
        self.positions.cut(connection)
    }

    /// Returns the id of the current position of a session without queued updates.
    pub fn position_id(&mut self, session: SessionKey, connection: u16) -> Option<&str> {
        match self.is_lagging(session) {
            true => None,
            false => self.positions.id(connection),
        }
    }

    /// Holds a new member of an item: it receives nothing before [`Self::send_missed`] or
    /// [`Self::restart`].
    pub(super) fn hold(&mut self, session: SessionKey, at: ItemAt) {
        let held = LaggingItem {
            at,
            seen: None,
            queue: None,
        };
        self.backlog.push(session, held, NEVER);
    }

    /// Sends the updates that a held member has missed, oldest first, and then live ones. All
    /// updates up to the current position must be among them.
    pub fn send_missed<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        (key, at): (SessionKey, ItemAt),
        missed: &[MissedUpdate],
    ) {
        let subscribed = sessions.get_mut(key).and_then(|session| {
            let subscription = session.subscription(at.0)?;
            let slot = (*subscription.slots.get(at.1 as usize - 1)?)?;
            // Later updates of a mode that conflates are not queued.
            let queue = session.new_queue(at.0, subscription.delivery);
            let queue =
                queue.unwrap_or_else(|| Box::new(UpdateQueue::new(subscription.delivery, 1)));
            Some((
                queue,
                slot,
                Arc::clone(&subscription.schema),
                subscription.delivery,
                subscription.form,
            ))
        });
        let Some((queue, slot, schema, delivery, form)) = subscribed else {
            return;
        };
        let Some(item) = items.at_mut(slot.slot) else {
            return;
        };
        let class = ClassKey {
            schema: &schema,
            sub_id: at.0,
            position: at.1,
            delivery,
            diffs: None,
            form,
        };
        let queue = missed_queue(queue, item, class, missed);
        let state = match queue.len() {
            0 => MemberState::Resumed,
            _ => MemberState::Lagging,
        };
        let members = item.class_mut(class).map(|found| &mut found.members);
        if let Some(member) = members.and_then(|all| all.get_mut(slot.member as usize)) {
            member.state = state;
        }
        self.backlog.remove(key, at);
        if queue.len() > 0 {
            let lagging = LaggingItem {
                at,
                seen: None,
                queue: Some(queue),
            };
            self.backlog.push(key, lagging, 0);
        }
        self.catch_up(output, sessions, items, key);
    }

    /// Sends a held member a snapshot, unless it wants none, and then live updates.
    pub fn restart<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        (key, at): (SessionKey, ItemAt),
        snapshot: Snapshot,
    ) {
        let Some(session) = sessions.get_mut(key) else {
            return;
        };
        let Some(subscribed) = session.subscription(at.0) else {
            return;
        };
        let Some(Some(slot)) = subscribed.slots.get(at.1 as usize - 1).copied() else {
            return;
        };
        let schema = Arc::clone(&subscribed.schema);
        let class = ClassKey {
            schema: &schema,
            sub_id: at.0,
            position: at.1,
            delivery: subscribed.delivery,
            diffs: None,
            form: subscribed.form,
        };
        self.backlog.remove(key, at);
        if let Some(item) = items.at_mut(slot.slot) {
            let members = item.class_mut(class).map(|found| &mut found.members);
            if let Some(member) = members.and_then(|all| all.get_mut(slot.member as usize)) {
                member.state = MemberState::New;
            }
        }
        self.begin_snapshot(session, items, (key, slot), class, snapshot);
        self.catch_up(output, sessions, items, key);
    }
}

/// Returns the queue of the updates that a member has missed. In modes with a state, missed values
/// complete the state of the item.
fn missed_queue(
    mut queue: Box<UpdateQueue>,
    item: &mut Item,
    class: ClassKey<'_>,
    missed: &[MissedUpdate],
) -> Box<UpdateQueue> {
    let wanted = class.schema.field_set();
    let mut readable = missed.iter().filter(|one| wanted.is_subset(&one.fields));
    match class.delivery.payload_source() {
        PayloadSource::Event => {
            readable.for_each(|one| queue.push_missed(Arc::clone(&one.values)));
        }
        PayloadSource::Row => {
            let rules = item.table().map(|table| table.interest().rules);
            readable.for_each(|one| push_row(&mut queue, rules, &one.values));
        }
        PayloadSource::State => {
            let Some(mut last) = readable.next().cloned() else {
                return queue;
            };
            for one in readable {
                let carries = |index| one.fields.contains(index);
                let merged = one.values.filled_from(&last.values, carries);
                let values = merged.map_or_else(|| Arc::clone(&one.values), Arc::new);
                let fields = Arc::clone(&one.fields);
                let older = std::mem::replace(&mut last, MissedUpdate { values, fields });
                if class.delivery != DeliveryMode::Newest {
                    queue.push_missed(older.values);
                }
            }
            if !item.has_all_values() {
                item.backfill(Arc::clone(&last.values), &last.fields);
            }
            // The state of the item is that after its last update.
            let newest = item.snapshot(class.schema).map(Arc::clone);
            queue.push_missed(newest.unwrap_or(last.values));
        }
    }
    queue
}

/// Queues the change of a row as its record describes it.
fn push_row(queue: &mut UpdateQueue, rules: Option<RowTableConfig>, values: &Arc<FrozenValues>) {
    let read = rules.and_then(|rules| {
        let (key, command) = rules.fields?;
        rules.mode.read(values.get(key), values.get(command))
    });
    match read {
        Some(CommandEvent::Row { .. }) => queue.push_missed(Arc::clone(values)),
        Some(CommandEvent::ClearSnapshot) => queue.push_clear(),
        Some(CommandEvent::EndOfSnapshot) | None => {}
    }
}
