//! What peers send: bytes to HTTP requests and WebSocket messages, in order.

use std::io;

use bytes::Bytes;

use super::connection::{ConnectionPhase, Detached, HttpExchange, HttpState, Protocol};
use super::event_loop::EventLoop;
use super::io::CLOSE_NORMAL;
use super::{CloseReason, ConnId, RequestOutcome, ServerHandler};
use crate::http1::{self, HttpRequest, Parsed, Response};
use crate::limited;
use crate::watchdog::Activity;
use crate::websocket::{
    self, Agreement, FrameError, FrameEvent, FrameRole, Inflater, WebSocketFrameReader,
};

/// The close code for a message over the limit (RFC 6455, section 7.4.1).
const CLOSE_TOO_BIG: u16 = 1009;
/// Charge for one frame or request on top of its bytes.
const REQUEST_CHARGE: usize = 64;

impl<H: ServerHandler> EventLoop<H> {
    /// Goes on with connections whose input had to wait, the longest waiting first, until the
    /// budget of this iteration is spent.
    pub(super) fn read_queued(&mut self) {
        for _ in 0..self.io.input.len() {
            let Some(conn) = self.io.input.pop() else {
                return;
            };
            let connection = self.io.connections.get_mut(conn.index as usize);
            if let Some(connection) = connection.filter(|one| one.generation == conn.generation) {
                connection.input_queued = false;
                self.read(conn, true);
            }
        }
    }

    /// Reads what a connection has, until it has no more or has used its part of the input budget.
    /// `to_end`: the peer has closed its direction, so a short read is not the end of it.
    pub(super) fn read(&mut self, conn: ConnId, to_end: bool) {
        if self.is_input_paused(conn) {
            return;
        }
        if !self.io.input.begin_visit() {
            return self.io.queue_input(conn);
        }
        if !self.feed_parked(conn) {
            return self.io.queue_input(conn);
        }
        if self.is_input_paused(conn) {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(connection) = self.io.connections.get_mut(conn.index as usize) {
            if connection.generation != conn.generation {
                break;
            }
            self.heartbeat.begin_for(Activity::INPUT, connection.peer);
            let handshaking = connection.stream.is_handshaking();
            match connection.stream.read(&mut scratch, &mut self.io.tls) {
                Ok(input) => {
                    self.io.counters.bytes_in += input.wire as u64;
                    self.io.input.charge(input.wire);
                    let open = connection.phase == ConnectionPhase::Open;
                    if connection.stream.wants_write() {
                        self.io.mark_dirty(conn.index);
                    }
                    if handshaking {
                        self.note_handshake(conn);
                    }
                    if open && input.plain > 0 {
                        self.take_input(conn, &scratch[..input.plain]);
                    }
                    if self.is_input_paused(conn) {
                        break;
                    }
                    if self.io.input.visit_is_over() {
                        self.io.queue_input(conn);
                        break;
                    }
                    if input.ended {
                        self.io.lose(conn, CloseReason::PeerClosed);
                        break;
                    }
                    // A short read means the socket is empty, and an edge will tell of more.
                    if input.drained && !to_end {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if handshaking {
                        limited!(debug, "TLS handshake failed", %error, "TLS handshake failed");
                    }
                    self.io.lose(conn, CloseReason::Lost);
                    break;
                }
            }
        }
        self.scratch = scratch;
    }

    fn is_input_paused(&mut self, conn: ConnId) -> bool {
        self.io.get(conn).is_some_and(|one| one.input_paused)
    }

    /// From the end of its handshake on a connection has its time for a request.
    fn note_handshake(&mut self, conn: ConnId) {
        let deadline_ms = self.io.now_ms() + self.io.limits.request_ms;
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        if connection.stream.is_handshaking() {
            return;
        }
        if let Protocol::Http(http) = &mut connection.protocol {
            http.deadline_ms = deadline_ms;
        }
        self.io.counters.tls_handshakes += 1;
    }

    /// Goes on with what was read earlier: of connections from other loops, of those whose answer
    /// is complete, and of those that had used their part of the budget. Returns `false` if the
    /// connection has used it again.
    fn feed_parked(&mut self, conn: ConnId) -> bool {
        let parked = self
            .io
            .get(conn)
            .is_some_and(|one| std::mem::take(&mut one.parked));
        if !parked {
            return true;
        }
        let input = self.io.input.take_parked(conn);
        self.take_input(conn, &input);
        !self.io.input.visit_is_over()
    }

    /// A connection leaves with what has been read of it.
    fn finish_detach(&mut self, conn: ConnId, protocol: Protocol, rest: &[u8]) {
        let mut connection = self.io.connections.remove(conn.index as usize);
        self.handler.on_departure(connection.ticket);
        // It is registered anew by whoever takes it in; what it may have got meanwhile shows then.
        let _ = self.io.registry.deregister(connection.stream.socket());
        connection.protocol = protocol;
        let input = rest.to_vec();
        let detached = Detached { connection, input };
        self.handler.on_detached(&mut self.io, detached);
    }

    /// Feeds input to whatever the connection speaks, which may change on the way.
    fn take_input(&mut self, conn: ConnId, input: &[u8]) {
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        match std::mem::replace(&mut connection.protocol, Protocol::Taken) {
            Protocol::Http(mut http) => {
                http.buffer.extend_from_slice(input);
                self.read_requests(conn, http);
            }
            Protocol::WebSocket(reader) => self.read_frames(conn, reader, input),
            Protocol::Taken => {}
        }
    }

    /// Handles whole requests until one is answered later. What follows it waits, up to the size
    /// of one request.
    fn read_requests(&mut self, conn: ConnId, mut http: Box<HttpState>) {
        let buffer = std::mem::take(&mut http.buffer);
        let mut used = 0;
        let mut parks = false;
        while let Some(step) = self.next_request(conn, &buffer[used..], &mut http) {
            used += step.used;
            self.io.input.charge(REQUEST_CHARGE);
            http.deadline_ms = self.io.now_ms() + self.io.limits.request_ms;
            if step.upgraded {
                let reader =
                    WebSocketFrameReader::new(FrameRole::Server, self.io.limits.message_bytes)
                        .with_deflate(self.io.deflate_window(conn).is_some());
                return self.read_frames(conn, reader, &buffer[used..]);
            }
            parks = self.io.input.visit_is_over() && used < buffer.len();
            if parks {
                break;
            }
        }
        http.buffer = buffer;
        http.buffer.drain(..used);
        let limits = self.io.limits.http;
        if self.io.is_leaving(conn) {
            return self.finish_detach(conn, Protocol::Http(http), &[]);
        }
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        let full = http.buffer.len() > limits.head_bytes + 2 * limits.body_bytes;
        connection.protocol = Protocol::Http(http);
        if full && connection.exchange != HttpExchange::None {
            self.io.lose(conn, CloseReason::Protocol);
        } else if parks {
            self.io.park(conn, &[]);
        }
    }

    /// Handles the first request in `buffer`; `None` when it is not whole, has to wait for the
    /// answer to the one before it, or the connection ends.
    fn next_request(
        &mut self,
        conn: ConnId,
        buffer: &[u8],
        http: &mut HttpState,
    ) -> Option<InputStep> {
        if buffer.is_empty() || self.io.get(conn)?.exchange != HttpExchange::None {
            return None;
        }
        match http1::parse_request_on(buffer, self.io.limits.http, http.peer, &mut http.progress) {
            Ok(Parsed::Partial) => None,
            Ok(Parsed::Complete(request, used)) => {
                let upgraded = self.answer(conn, &request);
                Some(InputStep { used, upgraded })
            }
            Err(error) => {
                self.io.counters.oversized += u64::from(matches!(error.status, 413 | 431));
                let response = Response::text(error.status, error.reason);
                self.end_http(conn, &response);
                None
            }
        }
    }

    /// Whether the connection is a WebSocket now.
    fn answer(&mut self, conn: ConnId, request: &HttpRequest<'_>) -> bool {
        let keep_alive = request.keep_alive;
        if let Some(connection) = self.io.get(conn) {
            connection.exchange = HttpExchange::Due { keep_alive };
        }
        match self.handler.on_request(&mut self.io, conn, request) {
            RequestOutcome::Later => false,
            RequestOutcome::Reply(response) => {
                self.io.reply(conn, &response);
                false
            }
            RequestOutcome::WebSocket { protocol, deflate } => match websocket_accept(request) {
                Ok(accept) => {
                    let agreement = match deflate {
                        true => Agreement::of(request.list("sec-websocket-extensions")),
                        false => None,
                    };
                    let extension = agreement.map(|agreement| agreement.answer());
                    let bytes = http1::write_upgrade(&accept, protocol, extension.as_deref());
                    if let Some(connection) = self.io.get(conn) {
                        connection.exchange = HttpExchange::None;
                        connection.window = agreement.map(|agreement| agreement.window);
                    }
                    self.io.counters.deflate_agreed += u64::from(agreement.is_some());
                    self.io.send(conn, Bytes::from(bytes))
                }
                Err(response) => {
                    self.end_http(conn, &response);
                    false
                }
            },
        }
    }

    /// Refuses what cannot be answered otherwise, and ends the connection.
    fn end_http(&mut self, conn: ConnId, response: &Response) {
        if let Some(connection) = self.io.get(conn) {
            let tag = connection.tag;
            connection
                .outbox
                .push(Bytes::from(response.to_bytes(false)));
            self.io.start_closing(conn);
            let reason = CloseReason::Protocol;
            self.handler.on_closed(&mut self.io, conn, tag, reason);
        }
    }

    fn read_frames(&mut self, conn: ConnId, mut reader: WebSocketFrameReader, mut input: &[u8]) {
        while !input.is_empty() {
            match reader.read(input) {
                Ok((used, event)) => {
                    let is_message =
                        matches!(event, Some(FrameEvent::Text(_) | FrameEvent::Deflated(_)));
                    match event {
                        Some(FrameEvent::Text(text)) => {
                            // The reader has checked it; a second look costs nothing that counts.
                            let text = std::str::from_utf8(text).unwrap_or_default();
                            self.handler.on_message(&mut self.io, conn, text);
                        }
                        Some(FrameEvent::Deflated(payload)) => {
                            let inflater = self.inflater.get_or_insert_default();
                            match inflate(inflater, payload, self.io.limits.message_bytes) {
                                Ok(text) => {
                                    self.io.counters.inflated += 1;
                                    self.handler.on_message(&mut self.io, conn, text);
                                }
                                Err(error) => return self.end_broken(conn, error),
                            }
                        }
                        Some(FrameEvent::Ping(payload)) => {
                            let mut frame = Vec::with_capacity(payload.len() + 2);
                            websocket::push_pong(&mut frame, None, payload);
                            self.io.send(conn, Bytes::from(frame));
                        }
                        Some(FrameEvent::Close { code }) => {
                            let code = code.unwrap_or(CLOSE_NORMAL);
                            self.end_websocket(conn, code, CloseReason::PeerClosed);
                        }
                        Some(FrameEvent::Pong(_)) | None => {}
                    }
                    input = &input[used..];
                    self.count_frames(conn, reader.take_frames(), is_message);
                    if self.io.get(conn).is_none() {
                        if self.io.is_leaving(conn) {
                            self.finish_detach(conn, Protocol::WebSocket(reader), input);
                        }
                        return;
                    }
                    let must_wait = self.io.input.visit_is_over() || self.is_input_paused(conn);
                    if must_wait && !input.is_empty() {
                        self.io.park(conn, input);
                        break;
                    }
                }
                Err(error) => return self.end_broken(conn, error),
            }
        }
        // An empty read frees the memory of the last message.
        let _ = reader.read(&[]);
        if let Some(connection) = self.io.get(conn) {
            connection.protocol = Protocol::WebSocket(reader);
        }
    }

    /// Charges frames, and tells the handler of those that are not the end of a message.
    fn count_frames(&mut self, conn: ConnId, frames: u32, is_message: bool) {
        self.io.input.charge(frames as usize * REQUEST_CHARGE);
        let others = frames.saturating_sub(u32::from(is_message));
        if others > 0 && self.io.get(conn).is_some() {
            self.handler.on_frames(&mut self.io, conn, others);
        }
    }

    /// Ends a WebSocket whose peer broke a rule or a limit.
    fn end_broken(&mut self, conn: ConnId, error: FrameError) {
        let code = error.close_code();
        self.io.counters.oversized += u64::from(code == CLOSE_TOO_BIG);
        self.end_websocket(conn, code, CloseReason::Protocol);
    }

    fn end_websocket(&mut self, conn: ConnId, code: u16, reason: CloseReason) {
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        let tag = connection.tag;
        let mut frame = Vec::new();
        websocket::push_close(&mut frame, None, code, "");
        connection.outbox.push(Bytes::from(frame));
        self.io.start_closing(conn);
        self.handler.on_closed(&mut self.io, conn, tag, reason);
    }
}

/// The text of a compressed message.
fn inflate<'a>(
    inflater: &'a mut Inflater,
    payload: &[u8],
    limit: usize,
) -> Result<&'a str, FrameError> {
    let text = inflater.inflate(payload, limit)?;
    std::str::from_utf8(text).map_err(|_| FrameError::NotUtf8)
}

/// One handled request.
struct InputStep {
    used: usize,
    upgraded: bool,
}

fn websocket_accept(request: &HttpRequest<'_>) -> Result<String, Response> {
    if !request.wants_websocket() {
        return Err(
            Response::text(426, "this path speaks WebSocket").with_header("Upgrade", "websocket")
        );
    }
    if request.header("sec-websocket-version") != Some("13") {
        let response = Response::text(426, "only WebSocket version 13 is spoken here");
        return Err(response.with_header("Sec-WebSocket-Version", "13"));
    }
    let key = request
        .header("sec-websocket-key")
        .filter(|key| key.len() == 24);
    key.map(websocket::accept_key)
        .ok_or_else(|| Response::text(400, "malformed Sec-WebSocket-Key"))
}
