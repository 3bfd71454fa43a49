//! The state of a shard, and the items that its subscriptions hold.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_net::MailboxSender;
use weir_net::server::ServerIo;
use weir_net::watchdog::Activity;
use weir_tlcp::server::{SessionConfig, Subscription};

use super::backlog::Backlog;
use super::class::ClassKey;
use super::compression::Compressor;
use super::dialect::Dialects;
use super::diffs::Encoder;
use super::drain::Drain;
use super::event::{HandoverTarget, ShardEvent};
use super::frequency::SessionTimers;
use super::interest_sender::InterestSender;
use super::item::{ItemTable, Removal};
use super::journal::JournalLimits;
use super::keys::{MemberSlot, SessionKey};
use super::pending_forwards::Forwarding;
use super::schema::SchemaCache;
use super::session::{ItemSubscription, Sessions};
use super::session_writer::SessionWriter;
use super::wire::Wire;
use crate::admission::{Admission, AdmissionId, SubscriptionUsage};
use crate::compression::Compression;
use crate::config::{GatewayLimits, Simulator, UnknownNames};
use crate::connection::KafkaConnection;
use crate::latency::PendingAges;
use crate::metrics::{ShardCounters, ShardMetrics};

/// Activities that the watchdog logs for a shard that is stuck.
pub(crate) const ACTIVITIES: &[&str] =
    &["a subscription", "an unsubscription", "a lost connection"];
pub(super) const SUBSCRIBE: Activity = Activity(Activity::FIRST_OWN);
pub(super) const UNSUBSCRIBE: Activity = Activity(Activity::FIRST_OWN + 1);
pub(super) const CONNECTION_LOST: Activity = Activity(Activity::FIRST_OWN + 2);

/// Immutable state shared by all shards.
#[derive(Debug)]
pub(crate) struct ShardContext {
    pub(crate) set_id: String,
    pub(crate) connections: Vec<Arc<KafkaConnection>>,
    pub(crate) session: SessionConfig,
    pub(crate) limits: GatewayLimits,
    pub(crate) unknown_names: UnknownNames,
    pub(crate) guard: Arc<Admission>,
    /// Response of the start item of the published load test simulator, if it is served.
    pub(crate) simulator: Option<Simulator>,
    pub(crate) compression: Compression,
    /// Maximum number of value bytes that each shard compares per second.
    pub(crate) diff_bytes_per_second: u64,
    /// Number of shards.
    pub(crate) shards: usize,
    /// Mailboxes of the shards, set once all of them exist.
    pub(crate) peers: OnceLock<Vec<MailboxSender<ShardEvent>>>,
}

/// Handler of one event loop.
pub(crate) struct Shard {
    pub(super) number: u16,
    pub(super) shared: Arc<ShardContext>,
    pub(super) sessions: Sessions,
    pub(super) items: ItemTable,
    pub(super) backlog: Backlog,
    pub(super) session_timers: SessionTimers,
    pub(super) writer: SessionWriter,
    pub(super) schemas: SchemaCache,
    pub(super) interests: InterestSender,
    pub(super) counters: ShardCounters,
    pub(super) metrics: Arc<ShardMetrics>,
    pub(super) drain: Option<Drain>,
    pub(super) forwarding: Forwarding,
    /// Shard to which the current connection moves after its message is handled.
    pub(super) handover_target: Option<HandoverTarget>,
    /// Encoder of `U` lines.
    pub(super) encoder: Encoder,
    /// Updates of this flush round, whose delivery ages are not recorded yet.
    pub(super) sent: PendingAges,
    /// Admission ids of the sessions that admission counts.
    pub(super) admission_ids: HashMap<SessionKey, AdmissionId>,
    /// Dialects of the connections that do not use the default.
    pub(super) dialects: Dialects,
    /// Ended sessions that still have items.
    pub(super) ended_sessions: VecDeque<SessionKey>,
    /// Number of items joined and released in this iteration.
    pub(super) item_work: usize,
    /// Number of these items that are charged to the input budget of a peer, or to no peer.
    pub(super) charged_work: usize,
    /// Numbers and bytes that admission counts for the subscriptions and items of this shard.
    pub(super) held: SubscriptionUsage,
    /// Time of the last sweep of unused field schemas.
    pub(super) swept_ms: u64,
    /// Time of the last count of sessions by transport.
    pub(super) transport_count_ms: u64,
    /// Buffer for the response lines of one message, reused.
    pub(super) response_buffer: Vec<u8>,
    /// Buffer for the data notifications caused by one request, reused.
    pub(super) notifications: Vec<u8>,
}

impl Shard {
    pub(crate) fn new(number: u16, shared: Arc<ShardContext>, metrics: Arc<ShardMetrics>) -> Self {
        let limits = &shared.limits;
        let journal = JournalLimits {
            bytes: limits.recovery_bytes,
            age_ms: limits.recovery_ms,
        };
        let encoder = Encoder::new(shared.diff_bytes_per_second);
        let compressor = Compressor::new(&shared.compression);
        let (queue_bytes, unbound_ms) = (limits.queue_bytes, limits.unbound_timeout_ms);
        Self {
            number,
            interests: InterestSender::new(number),
            writer: SessionWriter::new(queue_bytes, unbound_ms, journal, compressor),
            backlog: Backlog::new(queue_bytes),
            shared,
            sessions: Sessions::new(),
            items: ItemTable::new(),
            session_timers: SessionTimers::default(),
            schemas: SchemaCache::new(),
            counters: ShardCounters::default(),
            metrics,
            drain: None,
            forwarding: Forwarding::default(),
            handover_target: None,
            encoder,
            sent: PendingAges::default(),
            admission_ids: HashMap::new(),
            dialects: Dialects::default(),
            ended_sessions: VecDeque::new(),
            item_work: 0,
            charged_work: 0,
            held: SubscriptionUsage::default(),
            swept_ms: 0,
            transport_count_ms: 0,
            response_buffer: Vec::new(),
            notifications: Vec::new(),
        }
    }

    /// Removes the items of a subscription from the item table.
    pub(super) fn release(
        &mut self,
        session: SessionKey,
        subscription: Subscription<ItemSubscription>,
    ) {
        let ItemSubscription {
            schema,
            delivery,
            diffs,
            places,
            charged,
            ..
        } = subscription.handle;
        let sub_id = subscription.sub_id;
        if let Some(admission_id) = self.admission_ids.get(&session) {
            self.shared.guard.refund(*admission_id, charged as usize);
        }
        for (index, place) in places.iter().enumerate() {
            let Some(place) = *place else { continue };
            let position = index as u32 + 1;
            self.backlog.remove(session, (sub_id, position));
            let class = ClassKey {
                schema: &schema,
                sub_id,
                position,
                delivery,
                diffs: diffs.as_ref(),
            };
            self.release_item(place, class);
        }
        self.counters.subscriptions -= 1;
        self.count_held();
    }

    /// Removes one subscriber of an item from the item table.
    pub(super) fn release_item(&mut self, place: MemberSlot, class: ClassKey<'_>) {
        self.item_work += 1;
        let Removal {
            moved,
            emptied,
            narrowed,
            rows,
        } = self.items.remove(place, class);
        self.counters.rows.stored -= rows as u64;
        let entry = moved.and_then(|session| self.sessions.any_mut(session));
        let neighbour = entry.and_then(|entry| entry.core.subscription_mut(class.sub_id));
        let index = class.position as usize - 1;
        if let Some(Some(moved)) = neighbour.and_then(|other| other.handle.places.get_mut(index)) {
            moved.member = place.member;
        }
        if let Some(((connection, name), item)) = emptied {
            let connection = &self.shared.connections[usize::from(connection)];
            self.interests.unsubscribe(connection, name, item);
        }
        if let Some(((connection, name), interest)) = narrowed {
            let connection = &self.shared.connections[usize::from(connection)];
            self.interests.change(connection, name, interest);
        }
    }

    /// Ends all subscriptions to items of a Kafka connection.
    pub(super) fn force_unsubscribe(&mut self, wire: &mut impl Wire, connection: u16) {
        let mut lines = Vec::new();
        for key in self.sessions.keys() {
            let Some(entry) = self.sessions.get_mut(key) else {
                continue;
            };
            let of_connection =
                |one: &&Subscription<ItemSubscription>| one.handle.connection == connection;
            let all = entry.core.subscriptions().iter().filter(of_connection);
            let ids: Vec<u32> = all.map(|one| one.sub_id).collect();
            lines.clear();
            let mut removed = Vec::new();
            for sub_id in ids {
                removed.extend(entry.core.remove_subscription(sub_id));
                entry.core.write_unsub(sub_id, &mut lines);
            }
            removed
                .into_iter()
                .for_each(|subscription| self.release(key, subscription));
            if !lines.is_empty() {
                self.notify(wire, key, &lines);
            }
        }
    }

    /// Records the delivery ages of the updates that were queued before this flush round.
    pub(super) fn count_sent(&mut self) {
        if !self.sent.is_empty() {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
            self.sent.count(now_ms, &self.metrics.latency);
        }
    }

    /// Publishes the counters and refills the budgets.
    pub(super) fn publish(&mut self, io: &ServerIo) {
        self.counters.sessions = self.sessions.len() as u64;
        self.count_transports(io.now_ms());
        self.counters.items = self.items.len() as u64;
        self.counters.lagging = self.backlog.len() as u64;
        self.counters.unbound = self.writer.unbound;
        self.counters.journal_bytes = self.writer.journal_bytes as u64;
        self.encoder.refill(io.now_ms());
        self.counters.diffs = self.encoder.counters;
        self.writer.compressor.refill(io.now_ms());
        self.counters.compression = self.writer.compressor.counters;
        self.counters.connections = io.connections() as u64;
        self.counters.io = io.counters();
        self.metrics.publish(&self.counters);
    }
}
