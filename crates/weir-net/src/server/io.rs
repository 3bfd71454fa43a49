//! Operations that a handler has on its connections: send, close, tag, set timers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::connection::{ConnectionPhase, Detached, HttpExchange, Protocol, ServerConnection};
use super::input_queue::InputQueue;
use super::{CloseReason, ConnectionLimits, TrySend};
use crate::event_loop::{ConnId, Connections, LoopCore};
use crate::http1::{LAST_CHUNK, Response};
use crate::stream::{SendQueue, SocketStream, TlsBuffers};
use crate::tls::{CertificateNames, TlsAcceptor};
use crate::websocket::{self, DeflateWindow};

/// Close code of a normal closure (RFC 6455, section 7.4.1).
pub(super) const CLOSE_NORMAL: u16 = 1000;

/// Counters of one event loop since its start. Plain numbers: only the loop's thread writes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed on arrival because of the connection limit, and failed attempts to
    /// accept.
    pub rejected: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Write calls made.
    pub writes: u64,
    /// Flushes that left unsent bytes because the socket accepted no more.
    pub blocked: u64,
    /// Chunks rejected because a connection's send queue was full.
    pub overflows: u64,
    /// Connections closed because a request or message was over its limit.
    pub oversized: u64,
    /// TLS handshakes completed.
    pub tls_handshakes: u64,
    /// TLS connections that ended before their handshake was complete.
    pub tls_failures: u64,
    /// WebSockets opened with compressed messages.
    pub deflate_negotiated: u64,
    /// Compressed messages received.
    pub inflated: u64,
}

/// Purpose of a timer.
#[derive(Debug, Clone, Copy)]
pub enum LoopTimer {
    /// Checks the request deadline of a connection, or the tag of a WebSocket.
    Request(ConnId),
    /// Ends the closing phase of a connection.
    Close(ConnId),
    /// A timer of the handler, with its token.
    Handler(u64),
    /// Starts an iteration, nothing else.
    Wake,
}

/// Connections and timers of an event loop, as its handler sees them.
#[derive(Debug)]
pub struct ServerIo {
    pub(super) core: LoopCore<LoopTimer, Option<Arc<TlsAcceptor>>>,
    pub(super) connections: Connections<ServerConnection>,
    pub(super) dirty: VecDeque<ConnId>,
    pub(super) lost: Vec<(ConnId, CloseReason)>,
    /// Connections whose send queue became empty and whose handler waits for that.
    pub(super) writable: Vec<ConnId>,
    pub(super) input: InputQueue,
    pub(super) tls: TlsBuffers,
    pub(super) limits: ConnectionLimits,
    /// The handler has work for the next iteration.
    pub(super) has_work: bool,
    pub(super) counters: IoCounters,
}

impl ServerIo {
    pub(super) fn new(
        core: LoopCore<LoopTimer, Option<Arc<TlsAcceptor>>>,
        limits: ConnectionLimits,
    ) -> Self {
        Self {
            core,
            connections: Connections::default(),
            dirty: VecDeque::new(),
            lost: Vec::new(),
            writable: Vec::new(),
            input: InputQueue::new(),
            tls: TlsBuffers::default(),
            limits,
            has_work: false,
            counters: IoCounters::default(),
        }
    }

    /// Returns the start of this iteration in milliseconds since the common epoch of all event
    /// loops.
    pub fn now_ms(&self) -> u64 {
        self.core.now_ms()
    }

    /// Returns the number of open connections, closing ones included.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the counters of this event loop.
    pub fn counters(&self) -> IoCounters {
        self.counters
    }

    /// Attaches `tag` to a connection; [`super::ServerHandler::on_closed`] passes it back. A
    /// WebSocket that has tag 0 for [`ConnectionLimits::request_timeout_ms`] is closed as unused.
    pub fn set_tag(&mut self, conn: ConnId, tag: u64) {
        let at_ms = self.now_ms() + self.limits.request_timeout_ms;
        let Some(connection) = self.get(conn) else {
            return;
        };
        connection.tag = tag;
        // HTTP connections always have a request timer.
        let websocket = match connection.protocol {
            Protocol::WebSocket(_) => true,
            Protocol::Taken => connection.exchange == HttpExchange::None,
            Protocol::Http(_) => false,
        };
        if tag == 0 && websocket {
            self.core.set_timer(at_ms, LoopTimer::Request(conn));
        }
    }

    /// Returns the connection's tag, 0 if none was set, `None` if the connection is closed or
    /// closing.
    pub fn tag(&mut self, conn: ConnId) -> Option<u64> {
        self.get(conn).map(|connection| connection.tag)
    }

    /// Queues bytes for the end of this iteration. Returns `false` and queues nothing if the
    /// connection's send queue is full or the connection is closed.
    pub fn send(&mut self, conn: ConnId, chunk: Bytes) -> bool {
        if !self.has_capacity(conn, chunk.len()) {
            return false;
        }
        self.push(conn, chunk);
        true
    }

    /// Queues bytes as [`Self::send`] does, unless the connection lags. If the socket accepts no
    /// bytes and more than [`ConnectionLimits::high_water_bytes`] are queued, returns
    /// [`TrySend::Full`] and queues nothing; [`super::ServerHandler::on_writable`] follows when the
    /// queue is empty.
    pub fn try_send(&mut self, conn: ConnId, chunk: Bytes) -> TrySend {
        let high_water_bytes = self.limits.high_water_bytes;
        let has_capacity = self.has_capacity(conn, chunk.len());
        let Some(connection) = self.get(conn) else {
            return TrySend::Closed;
        };
        if !has_capacity || (connection.blocked && connection.send_queue.bytes() > high_water_bytes)
        {
            connection.wants_writable = true;
            return TrySend::Full;
        }
        self.push(conn, chunk);
        TrySend::Queued
    }

    /// Requests a call of [`super::ServerHandler::on_writable`] when the send queue is empty.
    pub fn notify_writable(&mut self, conn: ConnId) {
        if let Some(connection) = self.get(conn) {
            connection.wants_writable = true;
        }
    }

    /// Returns `true` if a chunk fits into a connection's send queue. A full queue whose socket is
    /// not known to be full is written first, so that many updates in one iteration do not count as
    /// a slow client.
    fn has_capacity(&mut self, conn: ConnId, bytes: usize) -> bool {
        let limit = self.limits.send_queue_bytes;
        // A single chunk larger than the limit must be sendable.
        let fits =
            |send_queue: &SendQueue| send_queue.is_empty() || send_queue.bytes() + bytes <= limit;
        match self.get(conn) {
            None => return false,
            Some(connection) if fits(&connection.send_queue) => return true,
            Some(connection) if !connection.blocked => self.flush(conn),
            Some(_) => {}
        }
        let has_capacity = self.get(conn).is_some_and(|found| fits(&found.send_queue));
        if !has_capacity {
            self.counters.overflows += 1;
        }
        has_capacity
    }

    fn push(&mut self, conn: ConnId, chunk: Bytes) {
        let connection = self.connections.get_mut(conn);
        let open = connection.filter(|one| one.phase == ConnectionPhase::Open);
        if let Some(connection) = open {
            connection.send_queue.push(chunk);
            if connection.mark_dirty() {
                self.dirty.push_back(conn);
            }
        }
    }

    fn exchange(&mut self, conn: ConnId) -> HttpExchange {
        self.get(conn)
            .map_or(HttpExchange::None, |one| one.exchange)
    }

    /// Sends the response to a deferred request.
    pub fn respond(&mut self, conn: ConnId, response: &Response) {
        if let HttpExchange::Pending { keep_alive } = self.exchange(conn) {
            self.push(conn, response.to_bytes(keep_alive).into());
            self.end_exchange(conn, keep_alive);
        }
    }

    /// Starts a response whose body follows in chunks; `head` has no body.
    /// [`crate::http1::push_chunk`] encodes the chunks, [`Self::send`] sends them, [`Self::finish`]
    /// ends the body.
    pub fn begin_body(&mut self, conn: ConnId, head: &Response) {
        let Some(connection) = self.get(conn) else {
            return;
        };
        if let HttpExchange::Pending { keep_alive } = connection.exchange {
            connection.exchange = HttpExchange::Body { keep_alive };
            self.push(conn, head.to_chunked_head(keep_alive).into());
        }
    }

    /// Ends the body that [`Self::begin_body`] started. The connection then handles its next
    /// request, or closes if the client requested that; closing is not reported to the handler.
    pub fn finish(&mut self, conn: ConnId) {
        if let HttpExchange::Body { keep_alive } = self.exchange(conn) {
            self.push(conn, Bytes::from_static(LAST_CHUNK));
            self.end_exchange(conn, keep_alive);
        }
    }

    fn end_exchange(&mut self, conn: ConnId, keep_alive: bool) {
        let deadline_ms = self.now_ms() + self.limits.request_timeout_ms;
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
        self.mark_dirty(conn);
    }

    /// Queues one WebSocket text message. Returns `false` as [`Self::send`] does.
    pub fn send_text(&mut self, conn: ConnId, text: &[u8]) -> bool {
        let mut frame = Vec::with_capacity(text.len() + 10);
        websocket::push_server_text(&mut frame, text);
        self.send(conn, Bytes::from(frame))
    }

    /// Closes a connection. With `drop_queued`, queued bytes are dropped, except those of a chunk
    /// that is partly written. `last` is sent next.
    /// A WebSocket gets a close frame. A chunked body gets its end only if there is a `last`. The
    /// socket is closed after [`ConnectionLimits::close_timeout_ms`] even if the peer does not
    /// read. The handler is not called for the connection again.
    pub fn close(&mut self, conn: ConnId, last: Option<Bytes>, drop_queued: bool) {
        self.close_with(conn, CLOSE_NORMAL, last, drop_queued);
    }

    /// As [`Self::close`], with this code in the close frame of a WebSocket.
    pub fn close_with(&mut self, conn: ConnId, code: u16, last: Option<Bytes>, drop_queued: bool) {
        let Some(connection) = self.get(conn) else {
            return;
        };
        if drop_queued {
            connection.send_queue.drop_unsent();
        }
        let is_complete = last.is_some();
        if let Some(last) = last {
            connection.send_queue.push(last);
        }
        match (&connection.protocol, connection.exchange) {
            (Protocol::Http(_), HttpExchange::None | HttpExchange::Pending { .. })
            | (Protocol::Taken, HttpExchange::Pending { .. }) => {}
            (_, HttpExchange::Body { .. }) => {
                // Without the final chunk the peer detects that the body is incomplete.
                if is_complete {
                    connection.send_queue.push(Bytes::from_static(LAST_CHUNK));
                }
            }
            (Protocol::WebSocket(_) | Protocol::Taken, _) => {
                let mut frame = Vec::new();
                websocket::push_close(&mut frame, None, code);
                connection.send_queue.push(Bytes::from(frame));
            }
        }
        self.start_closing(conn);
    }

    pub(super) fn start_closing(&mut self, conn: ConnId) {
        let at_ms = self.now_ms() + self.limits.close_timeout_ms;
        let Some(connection) = self.get(conn) else {
            return;
        };
        connection.phase = ConnectionPhase::Closing;
        self.core.set_timer(at_ms, LoopTimer::Close(conn));
        self.mark_dirty(conn);
    }

    /// Closes HTTP connections that have no request and no unsent bytes.
    pub fn close_idle(&mut self) {
        let idle = |one: &ServerConnection| {
            let http = matches!(one.protocol, Protocol::Http(_));
            http && one.phase == ConnectionPhase::Open
                && one.exchange == HttpExchange::None
                && one.send_queue.is_empty()
        };
        let all = self.connections.iter().filter(|(_, one)| idle(one));
        let found: Vec<ConnId> = all.map(|(conn, _)| conn).collect();
        found.into_iter().for_each(|conn| self.start_closing(conn));
    }

    /// Requests a call of [`super::ServerHandler::on_timer`] at `at_ms`, or up to one tick later.
    /// Timers cannot be cancelled: the handler checks on expiry if the timer still applies.
    pub fn set_timer(&mut self, at_ms: u64, token: u64) {
        self.core.set_timer(at_ms, LoopTimer::Handler(token));
    }

    /// Starts the next iteration within one timer tick, for work that waits for another thread.
    pub fn wake_soon(&mut self) {
        self.core.set_timer(self.now_ms(), LoopTimer::Wake);
    }

    /// Starts the next iteration without waiting for events, for work that is done in slices.
    pub fn continue_soon(&mut self) {
        self.has_work = true;
    }

    /// Returns the peer's address if the connection is open.
    pub fn peer(&mut self, conn: ConnId) -> Option<SocketAddr> {
        self.get(conn)
            .and_then(|connection| connection.stream.socket().peer_addr().ok())
    }

    /// Returns the names in the client certificate of a connection that has one: none at all if it
    /// is not a supported one.
    pub fn client_names(&mut self, conn: ConnId) -> Option<CertificateNames> {
        let certificate = self.get(conn)?.stream.client_certificate()?;
        Some(CertificateNames::parse(certificate).unwrap_or_default())
    }

    /// Returns the number of bytes queued for a connection; 0 if it is closed.
    pub fn queued_bytes(&mut self, conn: ConnId) -> usize {
        self.get(conn)
            .map_or(0, |connection| connection.send_queue.bytes())
    }

    /// Returns the value of [`super::ServerHandler::on_accept`] for a connection; 0 if it is
    /// closed.
    pub fn admission_id(&mut self, conn: ConnId) -> u32 {
        self.get(conn)
            .map_or(0, |connection| connection.admission_id)
    }

    /// Sets the admission id of a connection that was adopted from another event loop.
    pub fn set_admission_id(&mut self, conn: ConnId, admission_id: u32) {
        if let Some(connection) = self.get(conn) {
            connection.admission_id = admission_id;
        }
    }

    /// Returns the window of compressed messages to a WebSocket; `None` if it accepts none.
    pub fn deflate_window(&mut self, conn: ConnId) -> Option<DeflateWindow> {
        self.get(conn).and_then(|connection| connection.window)
    }

    /// Charges work for a peer's input to the input budget of this iteration, as the number of
    /// input bytes that cost as much to read. A connection that has used its part of the budget
    /// continues in a later iteration; so do all connections once the budget is spent.
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

    /// Stores input of a connection for a later iteration; it precedes the input in the socket.
    pub(super) fn park(&mut self, conn: ConnId, rest: &[u8]) {
        if let Some(connection) = self.get(conn) {
            connection.parked = true;
            self.input.park(conn, rest);
            self.queue_input(conn);
        }
    }

    pub(super) fn queue_input(&mut self, conn: ConnId) {
        let connection = self.connections.get_mut(conn);
        if let Some(connection) = connection.filter(|one| !one.input_queued) {
            connection.input_queued = true;
            self.input.push(conn);
        }
    }

    /// Stops accepting connections and closes the listeners.
    pub fn stop_accepting(&mut self) {
        self.core.listeners.retain(|_| false);
    }

    /// Ends the loop after this iteration.
    pub fn stop(&mut self) {
        self.core.stop();
    }

    /// Returns the connection if it is open and not closing.
    pub(super) fn get(&mut self, conn: ConnId) -> Option<&mut ServerConnection> {
        let connection = self.connections.get_mut(conn)?;
        (connection.phase == ConnectionPhase::Open).then_some(connection)
    }

    pub(super) fn is_detaching(&mut self, conn: ConnId) -> bool {
        let known = self.connections.get_mut(conn);
        known.is_some_and(|one| one.phase == ConnectionPhase::Detaching)
    }

    pub(super) fn mark_dirty(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(conn) {
            if connection.mark_dirty() {
                self.dirty.push_back(conn);
            }
        }
    }

    /// Detaches a connection from this event loop. When [`super::ServerHandler::on_message`] or
    /// [`super::ServerHandler::on_request`] returns, [`super::ServerHandler::on_detached`] receives
    /// it. It cannot be used here any more.
    pub fn detach(&mut self, conn: ConnId) {
        if let Some(connection) = self.get(conn) {
            connection.phase = ConnectionPhase::Detaching;
        }
    }

    /// Adopts a connection that another event loop has detached. Its stored input is handled in a
    /// later iteration. If it was detached during a request, the response to that request is still
    /// outstanding.
    pub fn adopt(&mut self, detached: Detached) -> Option<ConnId> {
        let Detached { connection, input } = detached;
        let mut stream = connection.stream;
        let peer = stream.socket().peer_addr().ok()?;
        let conn = self.insert(stream, peer, self.limits.request_timeout_ms)?;
        let taken = self.get(conn)?;
        taken.send_queue = connection.send_queue;
        taken.protocol = connection.protocol;
        taken.window = connection.window;
        taken.exchange = connection.exchange;
        self.mark_dirty(conn);
        self.park(conn, &input);
        Some(conn)
    }

    pub(super) fn insert(
        &mut self,
        stream: SocketStream,
        peer: SocketAddr,
        timeout_ms: u64,
    ) -> Option<ConnId> {
        let deadline_ms = self.now_ms().saturating_add(timeout_ms);
        let mut connection = ServerConnection::new(stream, peer, deadline_ms);
        let token = self.connections.next_id().index();
        if self
            .core
            .register(connection.stream.socket(), token)
            .is_err()
        {
            self.counters.rejected += 1;
            return None;
        }
        let conn = self.connections.insert(connection);
        self.core.set_timer(deadline_ms, LoopTimer::Request(conn));
        Some(conn)
    }

    pub(super) fn flush(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(conn) else {
            return;
        };
        connection.dirty = false;
        if connection.blocked || connection.phase == ConnectionPhase::Lingering {
            return;
        }
        let last = connection.phase == ConnectionPhase::Closing;
        let queue = &mut connection.send_queue;
        match connection.stream.flush(queue, &mut self.tls, last) {
            Ok(flushed) => {
                self.counters.bytes_out += flushed.bytes as u64;
                self.counters.writes += flushed.calls as u64;
                if !flushed.done {
                    connection.blocked = true;
                    self.counters.blocked += 1;
                } else if last {
                    connection.phase = ConnectionPhase::Lingering;
                    connection.stream.finish(&mut self.tls);
                } else if std::mem::take(&mut connection.wants_writable) {
                    self.writable.push(conn);
                }
            }
            Err(_) => self.mark_lost(conn, CloseReason::Lost),
        }
    }

    /// Records a lost connection; the event loop reports it to the handler and frees it.
    pub(super) fn mark_lost(&mut self, conn: ConnId, reason: CloseReason) {
        self.lost.push((conn, reason));
    }
}
