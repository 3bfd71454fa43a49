//! One shard: an event loop's handler with its own sessions, items and subscriptions.

mod backlog;
mod controls;
mod fanout;
mod http;
mod item;
#[cfg(test)]
mod model;
mod rebind;
mod requests;
mod schema;
mod session;
mod simulator;
mod waiting;
mod wire;
mod wishes;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use weir_mapping::{FieldSet, FrozenValues};
use weir_net::MailSender;
use weir_net::http1::HttpRequest;
use weir_net::server::{Answer, CloseReason, ConnId, Detached, Handler, Io};
use weir_tlcp::codes::SessionCode;
use weir_tlcp::server::{SessionConfig, Subscription, Wake, write_end};

use self::backlog::Backlog;
use self::item::{ClassKey, ItemTable, Removal};
use self::rebind::{Departure, Handover};
use self::schema::SchemaCache;
use self::session::{SessionKey, Sessions, Subscribed};
use self::wire::{Wire, message};
use self::wishes::Wishes;
use crate::config::{Limits, Simulator};
use crate::connection::Connection;
use crate::metrics::{ShardCounters, ShardMetrics};
use crate::routing::ItemKey;

pub(crate) use self::waiting::WaitingRoom;

/// Timer token of the end of a drain; sessions' tokens are never 0.
const DRAIN_OVER: u64 = 0;

/// What other threads tell a shard.
#[derive(Debug)]
pub(crate) enum ShardMail {
    /// An item has a new event.
    Update {
        item: ItemKey,
        update: Arc<FrozenValues>,
        /// What was extracted; other fields are absent although the record may have them.
        fields: Arc<FieldSet>,
    },
    /// A connection takes its items away from everybody.
    ForceUnsubscribe { connection: u16 },
    /// A WebSocket for a session of this shard.
    Adopt(Box<Handover>),
    /// Say goodbye to all sessions, then stop, in at most so many milliseconds.
    Drain { within_ms: u64 },
}

/// What all shards know and none changes.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) set_id: String,
    pub(crate) connections: Vec<Arc<Connection>>,
    pub(crate) session: SessionConfig,
    pub(crate) waiting: WaitingRoom,
    pub(crate) limits: Limits,
    /// What the start item of the published simulator says, if it is served.
    pub(crate) simulator: Option<Simulator>,
    /// The shards' inboxes, set once all of them exist.
    pub(crate) peers: OnceLock<Vec<MailSender<ShardMail>>>,
}

/// The handler of one event loop.
pub(crate) struct Shard {
    number: u16,
    shared: Arc<Shared>,
    sessions: Sessions,
    items: ItemTable,
    backlog: Backlog,
    schemas: SchemaCache,
    wishes: Wishes,
    counters: ShardCounters,
    metrics: Arc<ShardMetrics>,
    draining: bool,
    /// The connection in hand goes there when its message is dealt with.
    departure: Option<Departure>,
    /// Scratch for one `U` line.
    line: Vec<u8>,
    /// Scratch for the lines that answer one message.
    reply: Vec<u8>,
}

impl Shard {
    pub(crate) fn new(number: u16, shared: Arc<Shared>, metrics: Arc<ShardMetrics>) -> Self {
        Self {
            number,
            wishes: Wishes::new(number),
            shared,
            sessions: Sessions::new(),
            items: ItemTable::new(),
            backlog: Backlog::new(),
            schemas: SchemaCache::new(),
            counters: ShardCounters::default(),
            metrics,
            draining: false,
            departure: None,
            line: Vec::new(),
            reply: Vec::new(),
        }
    }

    /// Takes a subscription's items out of the table.
    fn release(&mut self, session: SessionKey, subscription: Subscription<Subscribed>) {
        let Subscribed {
            schema,
            delivery,
            places,
            ..
        } = subscription.handle;
        let sub_id = subscription.sub_id;
        self.backlog.forget(session, sub_id);
        for (index, place) in places.iter().enumerate() {
            let Some(place) = *place else { continue };
            let class = ClassKey {
                schema: &schema,
                sub_id,
                position: index as u32 + 1,
                delivery,
            };
            let Removal {
                moved,
                emptied,
                narrowed,
            } = self.items.remove(place, class);
            let entry = moved.and_then(|session| self.sessions.get_mut(session));
            let neighbour = entry.and_then(|entry| entry.core.subscription_mut(sub_id));
            if let Some(Some(moved)) =
                neighbour.and_then(|other| other.handle.places.get_mut(index))
            {
                moved.member = place.member;
            }
            if let Some((connection, name)) = emptied {
                let connection = &self.shared.connections[usize::from(connection)];
                self.wishes.unsubscribe(connection, name);
            }
            if let Some(((connection, name), item, fields)) = narrowed {
                let connection = &self.shared.connections[usize::from(connection)];
                self.wishes.change(connection, name, item, fields);
            }
        }
        self.counters.subscriptions -= 1;
    }

    /// Forgets a session and all it has subscribed to. The connection stays.
    fn remove_session(&mut self, key: SessionKey) -> Option<ConnId> {
        let mut entry = self.sessions.remove(key)?;
        if entry.unbound.is_some() {
            let id = entry.core.id().as_str();
            self.shared.waiting.claim(id, Instant::now());
        }
        let ids: Vec<u32> = entry
            .core
            .subscriptions()
            .iter()
            .map(|one| one.sub_id)
            .collect();
        for sub_id in ids {
            if let Some(subscription) = entry.core.remove_subscription(sub_id) {
                self.release(key, subscription);
            }
        }
        Some(entry.conn)
    }

    /// A client that does not read: its queue is full, and mode RAW may not drop silently. It is
    /// told to start over, which an SDK does at once.
    fn end_slow(&mut self, wire: &mut impl Wire, key: SessionKey) {
        self.counters.slow_ended += 1;
        self.finish(
            wire,
            key,
            SessionCode::EXPIRED,
            "too slow: the update queue is full",
            true,
        );
    }

    /// Ends a session with `END` and closes its connection; `now` drops what is queued.
    fn finish(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        code: SessionCode,
        text: &str,
        now: bool,
    ) {
        let Some(conn) = self.remove_session(key) else {
            return;
        };
        let mut line = Vec::new();
        write_end(&mut line, code, text);
        wire.close(conn, Some(message(&line)), now);
    }

    /// Sends lines on a session's stream, or keeps them until it has one.
    fn send_lines(&mut self, wire: &mut impl Wire, key: SessionKey, lines: &[u8]) -> bool {
        let queue_bytes = self.shared.limits.queue_bytes;
        match self.sessions.get_mut(key) {
            None => true,
            Some(entry) => match &mut entry.unbound {
                Some(unbound) => unbound.hold(message(lines), queue_bytes),
                None => wire.send_text(entry.conn, lines),
            },
        }
    }

    fn force_unsubscribe(&mut self, wire: &mut impl Wire, connection: u16) {
        let mut lines = Vec::new();
        for key in self.sessions.keys() {
            let Some(entry) = self.sessions.get_mut(key) else {
                continue;
            };
            let of_connection =
                |one: &&Subscription<Subscribed>| one.handle.connection == connection;
            let all = entry.core.subscriptions().iter().filter(of_connection);
            let ids: Vec<u32> = all.map(|one| one.sub_id).collect();
            lines.clear();
            let mut removed = Vec::new();
            for sub_id in ids {
                removed.extend(entry.core.remove_subscription(sub_id));
                entry.core.write_unsub(sub_id, &mut lines);
            }
            if !lines.is_empty() && !self.send_lines(wire, key, &lines) {
                self.end_slow(wire, key);
            }
            removed
                .into_iter()
                .for_each(|subscription| self.release(key, subscription));
        }
    }

    fn drain(&mut self, io: &mut Io, within_ms: u64) {
        self.draining = true;
        io.stop_accepting();
        io.set_timer(io.now_ms() + within_ms, DRAIN_OVER);
        for key in self.sessions.keys() {
            // 48 makes SDKs come back at once, to whichever gateway the balancer offers.
            self.finish(
                io,
                key,
                SessionCode::EXPIRED,
                "the gateway is shutting down",
                false,
            );
        }
    }

    fn publish(&mut self, io: &Io) {
        self.counters.sessions = self.sessions.len() as u64;
        self.counters.items = self.items.len() as u64;
        self.counters.lagging = self.backlog.len() as u64;
        self.counters.connections = io.connections() as u64;
        self.counters.io = io.counters();
        self.metrics.publish(&self.counters);
    }
}

impl Handler for Shard {
    type Mail = ShardMail;

    fn on_request(&mut self, _io: &mut Io, _conn: ConnId, request: &HttpRequest<'_>) -> Answer {
        http::answer(self, request)
    }

    fn on_message(&mut self, io: &mut Io, conn: ConnId, text: &str) {
        self.handle_message(io, conn, text);
    }

    fn on_closed(&mut self, _io: &mut Io, conn: ConnId, tag: u64, reason: CloseReason) {
        let key = SessionKey::from_bits(tag);
        // A connection that was its stream once says nothing about a session.
        let bound = self.sessions.get_mut(key);
        if let Some(entry) = bound.filter(|entry| entry.is_bound_to(conn)) {
            tracing::debug!(session = %entry.core.id(), ?reason, "session lost its connection");
            self.remove_session(key);
        }
    }

    fn on_timer(&mut self, io: &mut Io, token: u64) {
        if token == DRAIN_OVER {
            io.stop();
            return;
        }
        let key = SessionKey::from_bits(token);
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if entry.is_stale(io.now_ms()) {
            return;
        }
        if entry.unbound.is_some() {
            return self.watch_unbound(io, key);
        }
        let mut lines = Vec::new();
        let conn = entry.conn;
        match entry.core.on_wake(io.now_ms(), &mut lines) {
            Wake::Inactive => {
                self.remove_session(key);
                return io.close(conn, None, true);
            }
            Wake::Idle | Wake::Written => entry.arm(io, entry.core.next_wake_ms(), key),
        }
        if !lines.is_empty() && !io.send_text(conn, &lines) {
            self.end_slow(io, key);
        }
    }

    fn on_detached(&mut self, _io: &mut Io, connection: Detached) {
        self.on_departed(connection);
    }

    fn on_room(&mut self, io: &mut Io, _conn: ConnId, tag: u64) {
        self.catch_up(io, SessionKey::from_bits(tag));
    }

    fn on_mail(&mut self, io: &mut Io, mail: ShardMail) {
        match mail {
            ShardMail::Update {
                item,
                update,
                fields,
            } => self.fan_out(io, item, update, &fields),
            ShardMail::ForceUnsubscribe { connection } => self.force_unsubscribe(io, connection),
            ShardMail::Adopt(handover) => self.adopt(io, *handover),
            ShardMail::Drain { within_ms } => self.drain(io, within_ms),
        }
    }

    fn on_turn(&mut self, io: &mut Io) {
        self.publish(io);
        if self.draining && io.connections() == 0 {
            io.stop();
        }
    }
}
