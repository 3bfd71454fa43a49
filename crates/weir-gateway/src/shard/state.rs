//! The state of a shard, and the items that its subscriptions hold.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_net::server::ServerIo;
use weir_net::watchdog::Activity;
use weir_tlcp::server::Subscription;

use super::class::ClassKey;
use super::context::ShardContext;
use super::delivery::Delivery;
use super::dialect::Dialects;
use super::drain::DrainSchedule;
use super::event::ForwardTable;
use super::item::ItemName;
use super::item_table::{ItemTable, MemberRemoval};
use super::keys::{MemberSlot, SessionKey};
use super::schema::SchemaCache;
use super::session::{ItemSubscription, Sessions};
use super::wire::Wire;
use crate::admission::SubscriptionUsage;
use crate::interest::{Interest, InterestChange};
use crate::latency::PendingAges;
use crate::metrics::{ShardCounters, ShardMetrics};

/// Activities that the watchdog logs for a shard that is stuck.
pub(crate) const ACTIVITIES: &[&str] =
    &["a subscription", "an unsubscription", "a lost connection"];
pub(super) const SUBSCRIBE: Activity = Activity(Activity::FIRST_OWN);
pub(super) const UNSUBSCRIBE: Activity = Activity(Activity::FIRST_OWN + 1);
pub(super) const CONNECTION_LOST: Activity = Activity(Activity::FIRST_OWN + 2);

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

/// Handler of one event loop.
pub(crate) struct Shard {
    pub(super) number: u16,
    pub(super) shared: Arc<ShardContext>,
    pub(super) sessions: Sessions,
    pub(super) items: ItemTable,
    pub(super) schemas: SchemaCache,
    pub(super) delivery: Delivery,
    /// Updates of this flush round, whose delivery ages are not recorded yet.
    pub(super) ages: PendingAges,
    pub(super) counters: ShardCounters,
    pub(super) metrics: Arc<ShardMetrics>,
    pub(super) drain: Option<DrainSchedule>,
    pub(super) forwards: ForwardTable,
    pub(super) dialects: Dialects,
    pub(super) work: ItemWork,
    /// Numbers and bytes that admission counts for the subscriptions and items of this shard.
    pub(super) held: SubscriptionUsage,
    /// Buffer for the response lines of one message, reused.
    pub(super) response_buffer: Vec<u8>,
    /// Buffer for the data notifications caused by one request, reused.
    pub(super) notifications: Vec<u8>,
}

impl Shard {
    pub(crate) fn new(number: u16, shared: Arc<ShardContext>, metrics: Arc<ShardMetrics>) -> Self {
        let diff_bytes_per_second = shared.diff_bytes_per_second;
        Self {
            number,
            delivery: Delivery::new(&shared.limits, &shared.compression, diff_bytes_per_second),
            shared,
            sessions: Sessions::default(),
            items: ItemTable::default(),
            schemas: SchemaCache::default(),
            ages: PendingAges::default(),
            counters: ShardCounters::default(),
            metrics,
            drain: None,
            forwards: ForwardTable::default(),
            dialects: Dialects::default(),
            work: ItemWork::default(),
            held: SubscriptionUsage::default(),
            response_buffer: Vec::new(),
            notifications: Vec::new(),
        }
    }

    /// Reports an interest to the ingest workers. It is sent before `SUBOK`, so every record
    /// written after `SUBOK` is covered. `is_new` means that the shard had no interest in the item.
    pub(super) fn report_interest(&self, item: ItemName, change: InterestChange, is_new: bool) {
        let (connection, name) = item;
        let interest = Interest {
            name,
            shard: self.number,
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
            self.shared.guard.refund(entry.admission_id, charged);
        }
        for (slot, position) in subscribed.slots.iter().zip(1..) {
            if let Some(slot) = *slot {
                self.delivery.forget_item(session, (sub_id, position));
                self.release_item(slot, subscribed.class(sub_id, position));
            }
        }
        self.counters.subscriptions -= 1;
        self.count_held();
    }

    /// Removes one subscriber of an item from the item table.
    pub(super) fn release_item(&mut self, slot: MemberSlot, class: ClassKey<'_>) {
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
            lines.clear();
            let mut removed = Vec::new();
            for sub_id in ids {
                removed.extend(entry.core.remove_subscription(sub_id));
                entry.core.write_unsub(sub_id, &mut lines);
            }
            for subscription in removed {
                self.release(key, subscription);
            }
            if !lines.is_empty() {
                self.notify(wire, key, &lines);
            }
        }
    }

    /// Records the delivery ages of the updates that were queued before this flush round.
    pub(super) fn count_ages(&mut self) {
        if !self.ages.is_empty() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now_ms = i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
            self.ages.count(now_ms, &self.metrics.latency);
        }
    }

    /// Publishes the counters and refills the budgets.
    pub(super) fn publish(&mut self, io: &ServerIo) {
        self.counters.sessions = self.sessions.len() as u64;
        self.counters.by_transport = self.sessions.by_transport(io.now_ms());
        self.counters.items = self.items.len() as u64;
        self.counters.rows = self.items.row_counters();
        self.counters.delivery = self.delivery.publish(io.now_ms());
        self.counters.connections = io.connections() as u64;
        self.counters.io = io.counters();
        self.metrics.publish(&self.counters);
    }
}
