//! One shard: an event loop's handler with its own sessions, items and subscriptions.

mod admission;
mod backlog;
mod catch_up;
mod class;
mod classes;
mod compression;
mod control_requests;
mod dialect;
mod diffs;
mod drain;
mod encode;
mod fanout;
mod forwarding;
mod frame;
mod frequency;
mod handover;
mod http;
mod interest_sender;
mod item;
mod item_history;
mod journal;
mod lifecycle;
#[cfg(test)]
mod model;
mod queue;
mod requests;
mod row_table;
mod schema;
mod session;
mod session_writer;
mod simulator;
#[cfg(test)]
mod stream_tests;
mod subscribe;
mod teardown;
mod transition;
mod wire;
mod work;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_mapping::{FieldSet, FrozenValues};
use weir_net::MailboxSender;
use weir_net::http1::HttpRequest;
use weir_net::limited;
use weir_net::server::{CloseReason, ConnId, Detached, RequestOutcome, ServerHandler, ServerIo};
use weir_net::watchdog::Activity;
use weir_tlcp::request::SessionRef;
use weir_tlcp::server::{SessionConfig, Subscription};

use self::backlog::Backlog;
use self::catch_up::ALARM;
use self::class::{ClassKey, MemberSlot};
pub(crate) use self::compression::CompressionCounters;
use self::compression::Compressor;
use self::dialect::Dialect;
pub(crate) use self::diffs::DiffCounters;
use self::diffs::Encoder;
use self::drain::Drain;
use self::forwarding::{ForwardedRequests, ForwardedResponse, Forwarding};
use self::frequency::SessionTimers;
use self::handover::{Handover, HandoverTarget};
use self::interest_sender::InterestSender;
use self::item::{ItemTable, Removal};
use self::journal::JournalLimits;
use self::schema::SchemaCache;
use self::session::{ItemSubscription, SessionKey, Sessions};
use self::session_writer::SessionWriter;
use self::wire::Wire;
use crate::admission::{Admission, AdmissionId, HeldCounts};
use crate::compression::Compression;
use crate::config::{GatewayLimits, Simulator, UnknownNames};
use crate::connection::KafkaConnection;
use crate::latency::PendingAges;
use crate::metrics::{ShardCounters, ShardMetrics};
use crate::routing::ItemKey;

pub(crate) use self::item::shrinks;
pub(crate) use self::item_history::PastUpdate;
pub(crate) use self::row_table::{RowTable, RowTableConfig, RowTableCounters};

/// Timer tokens; those of sessions are never that small.
const DRAIN_OVER: u64 = 0;
const DRAIN_STEP: u64 = 1;
/// Polls that have got something are to end.
const SETTLE_POLLS: u64 = 2;

/// What the watchdog says of a shard that is stuck with one of these.
pub(crate) const ACTIVITIES: &[&str] =
    &["a subscription", "an unsubscription", "a lost connection"];
const SUBSCRIBE: Activity = Activity(Activity::FIRST_OWN);
const UNSUBSCRIBE: Activity = Activity(Activity::FIRST_OWN + 1);
const LOST: Activity = Activity(Activity::FIRST_OWN + 2);

/// What other threads tell a shard.
#[derive(Debug)]
pub(crate) enum ShardEvent {
    /// An item has a new event.
    Update {
        item: ItemKey,
        update: Arc<FrozenValues>,
        /// What was extracted; other fields are absent although the record may have them.
        fields: Arc<FieldSet>,
        /// When the record was written, in milliseconds since 1970; -1 if it does not say so.
        record_ms: i64,
    },
    /// The present values of an item that the shard has begun to want, or wants more fields of.
    Known {
        item: ItemKey,
        update: Arc<FrozenValues>,
        /// What was extracted.
        fields: Arc<FieldSet>,
    },
    /// The rows of an item that one worker knows from before the shard began to want them.
    Rows(Box<RowBackfill>),
    /// The last updates of an item that one worker knows from before the shard began to want them.
    History(Box<ToldHistory>),
    /// A connection takes its items away from everybody.
    ForceUnsubscribe { connection: u16 },
    /// A connection that is to be the stream of a session of this shard.
    Adopt(Box<Handover>),
    /// Requests about sessions of this shard that came in elsewhere.
    Errand(Box<ForwardedRequests>),
    /// The answers to such requests.
    Outcome(Box<ForwardedResponse>),
    /// A session of this shard that its client has given up.
    Retire(SessionRef<'static>),
    /// Say goodbye to all sessions, spread over a time, then stop, at most so much later.
    Drain { spread_ms: u64, within_ms: u64 },
}

/// See [`ShardEvent::Rows`].
#[derive(Debug)]
pub(crate) struct RowBackfill {
    pub(crate) item: ItemKey,
    /// Of the wish that it answers.
    pub(crate) generation: u32,
    pub(crate) rows: Vec<Arc<FrozenValues>>,
    /// More is to come before the snapshot is complete.
    pub(crate) in_snapshot: bool,
}

/// See [`ShardEvent::History`].
#[derive(Debug)]
pub(crate) struct ToldHistory {
    pub(crate) item: ItemKey,
    /// Of the wish that it answers.
    pub(crate) generation: u32,
    /// The oldest first.
    pub(crate) updates: Vec<PastUpdate>,
}

/// What all shards know and none changes.
#[derive(Debug)]
pub(crate) struct ShardContext {
    pub(crate) set_id: String,
    pub(crate) connections: Vec<Arc<KafkaConnection>>,
    pub(crate) session: SessionConfig,
    pub(crate) limits: GatewayLimits,
    pub(crate) unknown_names: UnknownNames,
    pub(crate) guard: Arc<Admission>,
    /// What the start item of the published simulator says, if it is served.
    pub(crate) simulator: Option<Simulator>,
    pub(crate) compression: Compression,
    /// Bytes of values that each shard compares per second at most.
    pub(crate) diff_bytes_per_second: u64,
    /// How many there are.
    pub(crate) shards: usize,
    /// The shards' inboxes, set once all of them exist.
    pub(crate) peers: OnceLock<Vec<MailboxSender<ShardEvent>>>,
}

/// The handler of one event loop.
pub(crate) struct Shard {
    number: u16,
    shared: Arc<ShardContext>,
    sessions: Sessions,
    items: ItemTable,
    backlog: Backlog,
    alarms: SessionTimers,
    courier: SessionWriter,
    schemas: SchemaCache,
    wishes: InterestSender,
    counters: ShardCounters,
    metrics: Arc<ShardMetrics>,
    drain: Option<Drain>,
    errands: Forwarding,
    /// The connection in hand goes there when its message is dealt with.
    departure: Option<HandoverTarget>,
    /// Makes `U` lines.
    encoder: Encoder,
    /// Updates of this pass over the connections, for their latency.
    sent: PendingAges,
    /// What the guard counts sessions under, where it does.
    tickets: HashMap<SessionKey, AdmissionId>,
    /// Of connections whose client is not like most.
    dialects: HashMap<ConnId, Dialect>,
    /// Sessions that have ended and still have items.
    departing: VecDeque<SessionKey>,
    /// Items joined and released in this iteration.
    item_work: usize,
    /// Of these, the ones charged to the input budget, or to no peer.
    charged_work: usize,
    /// Bytes that the guard counts for this shard's subscriptions and items.
    held: HeldCounts,
    /// When field lists that no subscription uses were forgotten.
    swept_ms: u64,
    /// When sessions were counted by transport.
    census_ms: u64,
    /// Scratch for the lines that answer one message.
    reply: Vec<u8>,
    /// Scratch for the data notifications that one request causes.
    notes: Vec<u8>,
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
        let (queue_bytes, unbound_ms) = (limits.queue_bytes, limits.unbound_ms);
        Self {
            number,
            wishes: InterestSender::new(number),
            courier: SessionWriter::new(queue_bytes, unbound_ms, journal, compressor),
            backlog: Backlog::new(queue_bytes),
            shared,
            sessions: Sessions::new(),
            items: ItemTable::new(),
            alarms: SessionTimers::default(),
            schemas: SchemaCache::new(),
            counters: ShardCounters::default(),
            metrics,
            drain: None,
            errands: Forwarding::default(),
            departure: None,
            encoder,
            sent: PendingAges::default(),
            tickets: HashMap::new(),
            dialects: HashMap::new(),
            departing: VecDeque::new(),
            item_work: 0,
            charged_work: 0,
            held: HeldCounts::default(),
            swept_ms: 0,
            census_ms: 0,
            reply: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Takes a subscription's items out of the table.
    fn release(&mut self, session: SessionKey, subscription: Subscription<ItemSubscription>) {
        let ItemSubscription {
            schema,
            delivery,
            diffs,
            places,
            charged,
            ..
        } = subscription.handle;
        let sub_id = subscription.sub_id;
        if let Some(ticket) = self.tickets.get(&session) {
            self.shared.guard.refund(*ticket, charged as usize);
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

    /// Takes one subscriber of an item out of the table.
    fn release_item(&mut self, place: MemberSlot, class: ClassKey<'_>) {
        self.item_work += 1;
        let Removal {
            moved,
            emptied,
            narrowed,
            rows,
        } = self.items.remove(place, class);
        self.counters.rows.keys -= rows as u64;
        let entry = moved.and_then(|session| self.sessions.any_mut(session));
        let neighbour = entry.and_then(|entry| entry.core.subscription_mut(class.sub_id));
        let index = class.position as usize - 1;
        if let Some(Some(moved)) = neighbour.and_then(|other| other.handle.places.get_mut(index)) {
            moved.member = place.member;
        }
        if let Some(((connection, name), item)) = emptied {
            let connection = &self.shared.connections[usize::from(connection)];
            self.wishes.unsubscribe(connection, name, item);
        }
        if let Some(((connection, name), demand)) = narrowed {
            let connection = &self.shared.connections[usize::from(connection)];
            self.wishes.change(connection, name, demand);
        }
    }

    fn force_unsubscribe(&mut self, wire: &mut impl Wire, connection: u16) {
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

    /// What was queued has been written as far as sockets took it.
    fn count_sent(&mut self) {
        if !self.sent.is_empty() {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
            self.sent.count(now_ms, &self.metrics.latency);
        }
    }

    fn publish(&mut self, io: &ServerIo) {
        self.counters.sessions = self.sessions.len() as u64;
        self.count_transports(io.now_ms());
        self.counters.items = self.items.len() as u64;
        self.counters.lagging = self.backlog.len() as u64;
        self.counters.unbound = self.courier.unbound;
        self.counters.kept_bytes = self.courier.kept_bytes as u64;
        self.encoder.refill(io.now_ms());
        self.counters.diffs = self.encoder.counters;
        self.courier.compressor.refill(io.now_ms());
        self.counters.compression = self.courier.compressor.counters;
        self.counters.connections = io.connections() as u64;
        self.counters.io = io.counters();
        self.metrics.publish(&self.counters);
    }
}

impl ServerHandler for Shard {
    type Mail = ShardEvent;

    fn on_arrival(&mut self, peer: SocketAddr) -> Option<u32> {
        self.shared.guard.enter(peer.ip()).ok()
    }

    fn on_departure(&mut self, ticket: u32) {
        self.shared.guard.leave(ticket);
    }

    fn on_request(
        &mut self,
        io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome {
        let answer = match self.reject_request(io, conn, request) {
            Some(refusal) => RequestOutcome::Reply(refusal),
            None => http::answer(self, io, conn, request),
        };
        self.charge_work(io);
        answer
    }

    fn on_message(&mut self, io: &mut ServerIo, conn: ConnId, text: &str) {
        let requests = self.lines(text.as_bytes()).max(1);
        if self.is_flooding(io, conn, requests) {
            return;
        }
        self.handle_message(io, conn, text);
        self.charge_work(io);
    }

    fn on_frames(&mut self, io: &mut ServerIo, conn: ConnId, count: u32) {
        self.is_flooding(io, conn, count);
    }

    fn on_closed(&mut self, io: &mut ServerIo, conn: ConnId, tag: u64, reason: CloseReason) {
        self.dialects.remove(&conn);
        let key = SessionKey::from_bits(tag);
        // A connection that was its stream once says nothing about a session.
        let bound = self.sessions.get_mut(key);
        if let Some(entry) = bound.filter(|entry| entry.is_bound_to(conn)) {
            self.metrics.heartbeat.begin(LOST);
            limited!(debug, "connection lost", session = %entry.core.id(), ?reason, "session lost its connection");
            self.lost(io, key);
        }
    }

    fn on_timer(&mut self, io: &mut ServerIo, token: u64) {
        match token {
            DRAIN_OVER => io.stop(),
            DRAIN_STEP => self.drain_step(io),
            SETTLE_POLLS => self.end_fed_polls(io),
            ALARM => self.on_alarm(io),
            session => self.wake(io, SessionKey::from_bits(session)),
        }
    }

    fn on_detached(&mut self, _io: &mut ServerIo, connection: Detached) {
        self.on_departed(connection);
    }

    fn on_room(&mut self, io: &mut ServerIo, _conn: ConnId, tag: u64) {
        self.resume(io, SessionKey::from_bits(tag));
    }

    fn on_mail(&mut self, io: &mut ServerIo, mail: ShardEvent) {
        match mail {
            ShardEvent::Update {
                item,
                update,
                fields,
                record_ms,
            } => {
                let before = self.counters.updates_out;
                self.fan_out(io, item, update, &fields);
                let deliveries = self.counters.updates_out - before;
                if self.sent.note(record_ms, deliveries) {
                    self.count_sent();
                }
            }
            ShardEvent::Known {
                item,
                update,
                fields,
            } => self.learn(io, item, update, &fields),
            ShardEvent::Rows(told) => self.backfill_rows(io, &told),
            ShardEvent::History(told) => self.learn_history(io, *told),
            ShardEvent::ForceUnsubscribe { connection } => self.force_unsubscribe(io, connection),
            ShardEvent::Adopt(handover) => self.accept_handover(io, *handover),
            ShardEvent::Errand(errand) => self.receive_errand(io, *errand),
            ShardEvent::Outcome(outcome) => self.take_outcome(io, *outcome),
            ShardEvent::Retire(id) => self.discard_replaced(io, &id),
            ShardEvent::Drain {
                spread_ms,
                within_ms,
            } => self.drain(io, spread_ms, within_ms),
        }
    }

    fn on_flushed(&mut self, _io: &mut ServerIo) {
        self.count_sent();
    }

    fn on_turn(&mut self, io: &mut ServerIo) {
        self.begin_turn(io);
        self.publish(io);
        self.retry_sends(io);
        if self.drained() {
            io.close_idle();
            if io.connections() == 0 {
                io.stop();
            }
        }
    }
}
