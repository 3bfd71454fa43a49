//! What a handler can do with its connections: send, close, tag, set timers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use mio::{Interest, Registry, Token};
use slab::Slab;

use super::connection::{ConnectionPhase, Detached, HttpExchange, Protocol, ServerConnection};
use super::input_queue::InputQueue;
use super::stream::{SocketStream, TlsBuffers};
use super::{CloseReason, ConnId, ConnectionLimits, TrySend};
use crate::http1::{LAST_CHUNK, Response};
use crate::send_queue::SendQueue;
use crate::timer::TimerWheel;
use crate::websocket::{self, DeflateWindow};

/// The close code of an orderly end (RFC 6455, section 7.4.1).
pub(super) const CLOSE_NORMAL: u16 = 1000;

/// Counts of one shard since its start; plain numbers, only its own thread writes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed at once because the shard was full, or not accepted for lack of
    /// descriptors.
    pub refused: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Write calls made.
    pub writes: u64,
    /// Flushes that left a rest because the kernel took no more.
    pub blocked: u64,
    /// Chunks refused because a connection's queue was full.
    pub overflows: u64,
    /// Connections closed because a request or message was over its limit.
    pub oversized: u64,
    /// TLS handshakes completed.
    pub tls_handshakes: u64,
    /// TLS connections that ended before their handshake did.
    pub tls_failures: u64,
    /// WebSockets opened that take compressed messages.
    pub deflate_agreed: u64,
    /// Compressed messages received.
    pub inflated: u64,
}

/// A timer's meaning.
#[derive(Debug, Clone, Copy)]
pub(super) enum LoopTimer {
    /// A connection without a request or without an owner may have had its time.
    Request(ConnId),
    /// A closing connection has had its time.
    Close(ConnId),
    /// The handler's own.
    Handler(u64),
    /// Nothing but a turn of the loop.
    Wake,
    /// Accepting failed for lack of descriptors: try again.
    Accept,
}

/// The connections and timers of a shard, as its handler sees them.
#[derive(Debug)]
pub struct ServerIo {
    pub(super) connections: Slab<ServerConnection>,
    pub(super) dirty: VecDeque<u32>,
    pub(super) lost: Vec<(ConnId, CloseReason)>,
    /// Connections that were behind and are not any more.
    pub(super) roomy: Vec<ConnId>,
    /// Connections with input for a later iteration.
    pub(super) input: InputQueue,
    pub(super) timers: TimerWheel<LoopTimer>,
    pub(super) tls: TlsBuffers,
    pub(super) registry: Registry,
    pub(super) limits: ConnectionLimits,
    /// The handler has work for the next iteration.
    pub(super) has_work: bool,
    pub(super) accepting: bool,
    pub(super) running: bool,
    pub(super) counters: IoCounters,
    epoch: Instant,
    now_ms: u64,
    generation: u32,
}

impl ServerIo {
    pub(super) fn new(registry: Registry, limits: ConnectionLimits, epoch: Instant) -> Self {
        let mut io = Self {
            connections: Slab::new(),
            dirty: VecDeque::new(),
            lost: Vec::new(),
            roomy: Vec::new(),
            input: InputQueue::new(),
            timers: TimerWheel::new(0),
            tls: TlsBuffers::default(),
            registry,
            limits,
            has_work: false,
            accepting: true,
            running: true,
            counters: IoCounters::default(),
            epoch,
            now_ms: 0,
            generation: 0,
        };
        io.update_clock();
        io.timers = TimerWheel::new(io.now_ms);
        io
    }

    pub(super) fn update_clock(&mut self) {
        self.now_ms = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
    }

    /// Milliseconds since the common epoch of all shards, as of the start of this turn.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Open connections, closing ones included.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// What this shard has done so far.
    pub fn counters(&self) -> IoCounters {
        self.counters
    }

    /// Leaves `tag` on a connection; [`super::Handler::on_closed`] gets it back. A WebSocket that
    /// carries tag 0 for [`Limits::request_ms`] is closed: nobody claims it.
    pub fn set_tag(&mut self, conn: ConnId, tag: u64) {
        let at_ms = self.now_ms + self.limits.request_ms;
        let Some(connection) = self.get(conn) else {
            return;
        };
        connection.tag = tag;
        // An HTTP connection is watched all its life.
        let websocket = match connection.protocol {
            Protocol::WebSocket(_) => true,
            Protocol::Taken => connection.exchange == HttpExchange::None,
            Protocol::Http(_) => false,
        };
        if tag == 0 && websocket {
            self.timers.set(at_ms, LoopTimer::Request(conn));
        }
    }

    /// The connection's tag, 0 if none was set, `None` if the connection is gone or closing.
    pub fn tag(&mut self, conn: ConnId) -> Option<u64> {
        self.get(conn).map(|connection| connection.tag)
    }

    /// Queues bytes for the end of this turn. False when the connection's queue is full (nothing
    /// is queued then) or the connection is gone.
    pub fn send(&mut self, conn: ConnId, chunk: Bytes) -> bool {
        if !self.has_room(conn, chunk.len()) {
            return false;
        }
        self.push(conn, chunk);
        true
    }

    /// As [`Self::send`], for bytes whose sender can wait: a connection that takes no more and has
    /// more than [`Limits::lag_bytes`] queued is [`TrySend::Behind`], nothing is queued, and
    /// [`super::Handler::on_room`] tells when it has caught up.
    pub fn offer(&mut self, conn: ConnId, chunk: Bytes) -> TrySend {
        let lag_bytes = self.limits.lag_bytes;
        let room = self.has_room(conn, chunk.len());
        let Some(connection) = self.get(conn) else {
            return TrySend::Gone;
        };
        if !room || (connection.blocked && connection.outbox.bytes() > lag_bytes) {
            connection.wants_room = true;
            return TrySend::Behind;
        }
        self.push(conn, chunk);
        TrySend::Queued
    }

    /// Has [`super::Handler::on_room`] tell when a connection that had no room is written out.
    pub fn want_room(&mut self, conn: ConnId) {
        if let Some(connection) = self.get(conn) {
            connection.wants_room = true;
        }
    }

    /// Whether a chunk fits into a connection's queue. A full queue that has not met a full socket
    /// yet is written out first: many updates in one turn do not make a client slow.
    fn has_room(&mut self, conn: ConnId, bytes: usize) -> bool {
        let limit = self.limits.outbox_bytes;
        // A single chunk larger than the limit must still be able to leave.
        let fits = |outbox: &SendQueue| outbox.is_empty() || outbox.bytes() + bytes <= limit;
        match self.get(conn) {
            None => return false,
            Some(connection) if fits(&connection.outbox) => return true,
            Some(connection) if !connection.blocked => self.flush(conn.index),
            Some(_) => {}
        }
        let room = self.get(conn).is_some_and(|found| fits(&found.outbox));
        if !room {
            self.counters.overflows += 1;
        }
        room
    }

    fn push(&mut self, conn: ConnId, chunk: Bytes) {
        if let Some(connection) = self.get(conn) {
            connection.outbox.push(chunk);
            self.mark_dirty(conn.index);
        }
    }

    /// Answers a request that was not answered at once.
    pub fn reply(&mut self, conn: ConnId, response: &Response) {
        let Some(connection) = self.get(conn) else {
            return;
        };
        if let HttpExchange::Due { keep_alive } = connection.exchange {
            let bytes = response.to_bytes(keep_alive);
            connection.outbox.push(Bytes::from(bytes));
            self.end_exchange(conn, keep_alive);
        }
    }

    /// Begins an answer whose body comes in pieces (`head` has none): [`crate::http1::push_chunk`]
    /// makes them, [`Self::send`] sends them, [`Self::finish`] ends the body.
    pub fn begin_body(&mut self, conn: ConnId, head: &Response) {
        let Some(connection) = self.get(conn) else {
            return;
        };
        if let HttpExchange::Due { keep_alive } = connection.exchange {
            let bytes = head.to_chunked_head(keep_alive);
            connection.outbox.push(Bytes::from(bytes));
            connection.exchange = HttpExchange::Body { keep_alive };
            self.mark_dirty(conn.index);
        }
    }

    /// Ends the body that [`Self::begin_body`] has begun. The connection takes its next request, or
    /// is closed if the client wants that; the handler hears no more of it then.
    pub fn finish(&mut self, conn: ConnId) {
        let Some(connection) = self.get(conn) else {
            return;
        };
        if let HttpExchange::Body { keep_alive } = connection.exchange {
            connection.outbox.push(Bytes::from_static(LAST_CHUNK));
            self.end_exchange(conn, keep_alive);
        }
    }

    fn end_exchange(&mut self, conn: ConnId, keep_alive: bool) {
        let deadline_ms = self.now_ms + self.limits.request_ms;
        let Some(connection) = self.get(conn) else {
            return;
        };
        connection.exchange = HttpExchange::None;
        if !keep_alive {
            return self.start_closing(conn);
        }
        let mut has_input = false;
        if let Protocol::Http(http) = &mut connection.protocol {
            http.deadline_ms = deadline_ms;
            has_input = !http.buffer.is_empty();
        }
        if has_input {
            self.park(conn, &[]);
        }
        self.mark_dirty(conn.index);
    }

    /// Queues one WebSocket text message.
    pub fn send_text(&mut self, conn: ConnId, text: &[u8]) -> bool {
        let mut frame = Vec::with_capacity(text.len() + 10);
        websocket::push_server_text(&mut frame, text);
        self.send(conn, Bytes::from(frame))
    }

    /// Ends a connection: `last` replaces whatever is queued and not begun if `drop_queued`, else
    /// follows it; a WebSocket gets a close frame, a body of unknown length its end if there is a
    /// `last`; then the socket is closed, after
    /// [`Limits::close_ms`] even if the peer does not read. The handler hears no more of it.
    pub fn close(&mut self, conn: ConnId, last: Option<Bytes>, drop_queued: bool) {
        let Some(connection) = self.get(conn) else {
            return;
        };
        if drop_queued {
            connection.outbox.drop_unsent();
        }
        let ends_well = last.is_some();
        if let Some(last) = last {
            connection.outbox.push(last);
        }
        match (&connection.protocol, connection.exchange) {
            (Protocol::Http(_), HttpExchange::None | HttpExchange::Due { .. })
            | (Protocol::Taken, HttpExchange::Due { .. }) => {}
            (_, HttpExchange::Body { .. }) => {
                // Without its end the peer sees that something is missing.
                if ends_well {
                    connection.outbox.push(Bytes::from_static(LAST_CHUNK));
                }
            }
            (Protocol::WebSocket(_) | Protocol::Taken, _) => {
                let mut frame = Vec::new();
                websocket::push_close(&mut frame, None, CLOSE_NORMAL, "");
                connection.outbox.push(Bytes::from(frame));
            }
        }
        self.start_closing(conn);
    }

    pub(super) fn start_closing(&mut self, conn: ConnId) {
        let at_ms = self.now_ms + self.limits.close_ms;
        let Some(connection) = self.get(conn) else {
            return;
        };
        connection.phase = ConnectionPhase::Closing;
        self.timers.set(at_ms, LoopTimer::Close(conn));
        self.mark_dirty(conn.index);
    }

    /// Closes the HTTP connections that wait for their next request.
    pub fn close_idle(&mut self) {
        let idle = |one: &ServerConnection| {
            let http = matches!(one.protocol, Protocol::Http(_));
            http && one.phase == ConnectionPhase::Open
                && one.exchange == HttpExchange::None
                && one.outbox.is_empty()
        };
        let all = self.connections.iter().filter(|(_, one)| idle(one));
        let found: Vec<ConnId> = all
            .map(|(index, one)| ConnId {
                index: index as u32,
                generation: one.generation,
            })
            .collect();
        found.into_iter().for_each(|conn| self.start_closing(conn));
    }

    /// Asks for [`super::Handler::on_timer`] at `at_ms`, or up to one tick later. Timers cannot be
    /// taken back: check on expiry whether it still matters.
    pub fn set_timer(&mut self, at_ms: u64, token: u64) {
        self.timers.set(at_ms, LoopTimer::Handler(token));
    }

    /// Sees to it that the next turn comes within a tick, for work that waits for another thread.
    pub fn wake_soon(&mut self) {
        self.timers.set(self.now_ms, LoopTimer::Wake);
    }

    /// Begins the next iteration without waiting for events, for work that is done in slices.
    pub fn continue_soon(&mut self) {
        self.has_work = true;
    }

    /// The other end of a connection, if it is open.
    pub fn peer(&mut self, conn: ConnId) -> Option<SocketAddr> {
        self.get(conn)
            .and_then(|connection| connection.stream.socket().peer_addr().ok())
    }

    /// What [`super::Handler::on_arrival`] gave the connection; 0 if it is gone.
    pub fn ticket(&mut self, conn: ConnId) -> u32 {
        self.get(conn).map_or(0, |connection| connection.ticket)
    }

    /// Gives a connection that was taken in from another shard its number here.
    pub fn set_admission_id(&mut self, conn: ConnId, ticket: u32) {
        if let Some(connection) = self.get(conn) {
            connection.ticket = ticket;
        }
    }

    /// How far back compressed messages to a WebSocket may refer; `None` if it takes none.
    pub fn deflate_window(&mut self, conn: ConnId) -> Option<DeflateWindow> {
        self.get(conn).and_then(|connection| connection.window)
    }

    /// Charges work for a peer's input to the input budget of this iteration, as the number of
    /// input bytes that cost as much to read. A connection that has used its part of the budget,
    /// and all connections once it is spent, go on in a later iteration.
    pub fn charge_input(&mut self, bytes: usize) {
        self.input.charge(bytes);
    }

    /// Stops handling input of a WebSocket after the current message. Unread input stays in the
    /// socket, so that the peer is slowed down, until [`Self::resume_input`].
    pub fn pause_input(&mut self, conn: ConnId) {
        if let Some(connection) = self.get(conn) {
            connection.input_paused = true;
        }
    }

    /// Resumes the input of a WebSocket in a later iteration.
    pub fn resume_input(&mut self, conn: ConnId) {
        if let Some(connection) = self.get(conn) {
            if std::mem::take(&mut connection.input_paused) {
                self.queue_input(conn);
            }
        }
    }

    /// Stores input of a connection for a later iteration; it comes before what is in the socket.
    pub(super) fn park(&mut self, conn: ConnId, rest: &[u8]) {
        if let Some(connection) = self.get(conn) {
            connection.parked = true;
            self.input.park(conn, rest);
            self.queue_input(conn);
        }
    }

    /// Queues a connection with input for a later iteration.
    pub(super) fn queue_input(&mut self, conn: ConnId) {
        let connection = self.connections.get_mut(conn.index as usize);
        let current = connection.filter(|one| one.generation == conn.generation);
        if let Some(connection) = current.filter(|one| !one.input_queued) {
            connection.input_queued = true;
            self.input.push(conn);
        }
    }

    /// Accepts no more connections; those that wait in the kernel are reset when the loop ends.
    pub fn stop_accepting(&mut self) {
        self.accepting = false;
    }

    /// Ends the loop after this turn.
    pub fn stop(&mut self) {
        self.running = false;
    }

    /// The connection, if it is open (not closing).
    pub(super) fn get(&mut self, conn: ConnId) -> Option<&mut ServerConnection> {
        let connection = self.connections.get_mut(conn.index as usize)?;
        let valid =
            connection.generation == conn.generation && connection.phase == ConnectionPhase::Open;
        valid.then_some(connection)
    }

    pub(super) fn is_leaving(&self, conn: ConnId) -> bool {
        let known = self.connections.get(conn.index as usize);
        known.is_some_and(|one| {
            one.generation == conn.generation && one.phase == ConnectionPhase::Leaving
        })
    }

    pub(super) fn mark_dirty(&mut self, index: u32) {
        if let Some(connection) = self.connections.get_mut(index as usize) {
            if !connection.dirty && !connection.blocked {
                connection.dirty = true;
                self.dirty.push_back(index);
            }
        }
    }

    /// Sends a connection away to another shard, once [`super::Handler::on_message`] or
    /// [`super::Handler::on_request`] returns: then [`super::Handler::on_detached`] gets it. Nothing
    /// can be done with it here any more.
    pub fn detach(&mut self, conn: ConnId) {
        if let Some(connection) = self.get(conn) {
            connection.phase = ConnectionPhase::Leaving;
        }
    }

    /// Takes in a connection that another shard has detached. What it had read already is handled
    /// at the end of this turn; a request that it was detached for still has to be answered.
    pub fn adopt(&mut self, detached: Detached) -> Option<ConnId> {
        let Detached { connection, input } = detached;
        let mut stream = connection.stream;
        let peer = stream.socket().peer_addr().ok()?;
        let conn = self.insert(stream, peer, self.limits.request_ms)?;
        let taken = self.get(conn)?;
        taken.outbox = connection.outbox;
        taken.protocol = connection.protocol;
        taken.window = connection.window;
        taken.exchange = connection.exchange;
        self.mark_dirty(conn.index);
        self.park(conn, &input);
        Some(conn)
    }

    pub(super) fn insert(
        &mut self,
        stream: SocketStream,
        peer: SocketAddr,
        timeout_ms: u64,
    ) -> Option<ConnId> {
        self.generation = self.generation.wrapping_add(1);
        let deadline_ms = self.now_ms.saturating_add(timeout_ms);
        let entry = self.connections.vacant_entry();
        let index = entry.key();
        let conn = ConnId {
            index: index as u32,
            generation: self.generation,
        };
        let connection = entry.insert(ServerConnection::new(
            stream,
            conn.generation,
            peer,
            deadline_ms,
        ));
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self
            .registry
            .register(connection.stream.socket(), Token(index), interest)
            .is_err()
        {
            self.connections.remove(index);
            self.counters.refused += 1;
            return None;
        }
        self.timers.set(deadline_ms, LoopTimer::Request(conn));
        Some(conn)
    }

    /// Writes what one connection has queued.
    pub(super) fn flush(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(index as usize) else {
            return;
        };
        connection.dirty = false;
        if connection.blocked || connection.phase == ConnectionPhase::Lingering {
            return;
        }
        let (outbox, last) = (
            &mut connection.outbox,
            connection.phase == ConnectionPhase::Closing,
        );
        match connection.stream.flush(outbox, &mut self.tls, last) {
            Ok(flushed) => {
                self.counters.bytes_out += flushed.bytes as u64;
                self.counters.writes += flushed.calls as u64;
                if !flushed.done {
                    connection.blocked = true;
                    self.counters.blocked += 1;
                    return;
                }
                if connection.phase == ConnectionPhase::Closing {
                    connection.linger();
                } else if std::mem::take(&mut connection.wants_room) {
                    let generation = connection.generation;
                    self.roomy.push(ConnId { index, generation });
                }
            }
            Err(_) => {
                let conn = ConnId {
                    index,
                    generation: connection.generation,
                };
                self.lose(conn, CloseReason::Lost);
            }
        }
    }

    /// Notes that a connection is gone; the shard tells the handler and frees it.
    pub(super) fn lose(&mut self, conn: ConnId, reason: CloseReason) {
        self.lost.push((conn, reason));
    }
}
