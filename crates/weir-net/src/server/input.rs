//! Turns received bytes into HTTP requests and WebSocket messages, in order.

use bytes::Bytes;

use super::connection::{ConnectionPhase, Detached, HttpExchange, HttpState, Protocol};
use super::event_loop::Server;
use super::io::CLOSE_NORMAL;
use super::{CloseReason, ConnId, RequestOutcome, ServerHandler};
use crate::http1::{self, HttpRequest, Parsed, Response};
use crate::limited;
use crate::watchdog::Activity;
use crate::websocket::{
    self, DeflateParams, FrameError, FrameEvent, FrameRole, Inflater, WebSocketFrameReader,
};

/// Close code for a message over the size limit (RFC 6455, section 7.4.1).
const CLOSE_TOO_BIG: u16 = 1009;
/// Cost of one frame or request in the input budget, in addition to its bytes.
const REQUEST_CHARGE: usize = 64;

impl<H: ServerHandler> Server<H> {
    /// Reads queued connections, the longest waiting first, until the input budget of this
    /// iteration is spent.
    pub(super) fn read_queued(&mut self) {
        for _ in 0..self.io.input.len() {
            let Some(conn) = self.io.input.pop() else {
                return;
            };
            if let Some(connection) = self.io.connections.get_mut(conn) {
                connection.input_queued = false;
                self.read(conn, true);
            }
        }
    }

    /// Reads a connection until its socket is empty or it has used its part of the input budget.
    /// With `to_end`, the peer has closed its direction: a short read is then not the last one.
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
        while let Some(connection) = self.io.connections.get_mut(conn) {
            let heartbeat = &self.io.core.heartbeat;
            heartbeat.begin_for(Activity::INPUT, connection.peer);
            let handshaking = connection.stream.is_handshaking();
            let input = match connection.stream.read(&mut scratch, &mut self.io.tls) {
                Ok(input) => input,
                Err(error) => {
                    if handshaking {
                        limited!(debug, "TLS handshake failed", %error, "TLS handshake failed");
                    }
                    self.io.mark_lost(conn, CloseReason::Lost);
                    break;
                }
            };
            self.io.counters.bytes_in += input.wire as u64;
            self.io.input.charge(input.wire);
            let open = connection.phase == ConnectionPhase::Open;
            if connection.stream.wants_write() {
                self.io.mark_dirty(conn);
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
                self.io.mark_lost(conn, CloseReason::PeerClosed);
                break;
            }
            // The next readable event reports new input.
            if input.drained && (!to_end || input.wire == 0) {
                break;
            }
        }
        self.scratch = scratch;
    }

    fn is_input_paused(&mut self, conn: ConnId) -> bool {
        self.io.get(conn).is_some_and(|one| one.input_paused)
    }

    /// Starts the request timeout of a connection once its TLS handshake is complete.
    fn note_handshake(&mut self, conn: ConnId) {
        let deadline_ms = self.io.now_ms() + self.io.limits.request_timeout_ms;
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

    /// Handles input that was read earlier: of adopted connections, of connections whose response
    /// is complete, and of connections that had used their part of the input budget. Returns
    /// `false` if the connection has used its part again.
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

    /// Removes a detached connection and passes it to the handler with its unhandled input.
    fn finish_detach(&mut self, conn: ConnId, protocol: Protocol, rest: &[u8]) {
        let Some(mut connection) = self.io.connections.remove(conn) else {
            return;
        };
        self.handler.on_release(connection.admission_id);
        // The event loop that adopts the connection registers the socket again and then receives an
        // event for any input that arrives in between.
        self.io.core.deregister(connection.stream.socket());
        connection.protocol = protocol;
        let input = rest.to_vec();
        let detached = Detached { connection, input };
        self.handler.on_detached(&mut self.io, detached);
    }

    /// Passes input to the current protocol of the connection, which the input can change.
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

    /// Handles complete requests until the response to one is deferred. Stores the input that
    /// follows; its size is limited to about that of one request.
    fn read_requests(&mut self, conn: ConnId, mut http: Box<HttpState>) {
        let buffer = std::mem::take(&mut http.buffer);
        let mut used = 0;
        let mut parks = false;
        while let Some((bytes, upgraded)) = self.next_request(conn, &buffer[used..], &mut http) {
            used += bytes;
            self.io.input.charge(REQUEST_CHARGE);
            http.deadline_ms = self.io.now_ms() + self.io.limits.request_timeout_ms;
            if upgraded {
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
        if self.io.is_detaching(conn) {
            return self.finish_detach(conn, Protocol::Http(http), &[]);
        }
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        let full = http.buffer.len() > limits.head_bytes + 2 * limits.body_bytes;
        connection.protocol = Protocol::Http(http);
        if full && connection.exchange != HttpExchange::None {
            self.io.mark_lost(conn, CloseReason::Protocol);
        } else if parks {
            self.io.park(conn, &[]);
        }
    }

    /// Handles the first request in `buffer`. Returns its length, and `true` if the connection is a
    /// WebSocket afterwards; `None` if the request is incomplete or
    /// malformed, if the previous response is outstanding, or if the connection is gone.
    fn next_request(
        &mut self,
        conn: ConnId,
        buffer: &[u8],
        http: &mut HttpState,
    ) -> Option<(usize, bool)> {
        if buffer.is_empty() || self.io.get(conn)?.exchange != HttpExchange::None {
            return None;
        }
        match http1::parse_request_incremental(
            buffer,
            self.io.limits.http,
            http.peer,
            &mut http.progress,
        ) {
            Ok(Parsed::Partial) => None,
            Ok(Parsed::Complete(request, used)) => Some((used, self.respond(conn, &request))),
            Err(error) => {
                self.io.counters.oversized += u64::from(matches!(error.status, 413 | 431));
                let response = Response::text(error.status, error.reason);
                self.end_http(conn, &response);
                None
            }
        }
    }

    /// Passes a request to the handler. Returns `true` if the connection is a WebSocket afterwards.
    fn respond(&mut self, conn: ConnId, request: &HttpRequest<'_>) -> bool {
        let keep_alive = request.keep_alive;
        if let Some(connection) = self.io.get(conn) {
            connection.exchange = HttpExchange::Pending { keep_alive };
        }
        match self.handler.on_request(&mut self.io, conn, request) {
            RequestOutcome::Defer => false,
            RequestOutcome::Respond(response) => {
                self.io.respond(conn, &response);
                false
            }
            RequestOutcome::Upgrade { protocol, deflate } => match websocket_accept(request) {
                Ok(accept) => {
                    let params = match deflate {
                        true => DeflateParams::of(request.list("sec-websocket-extensions")),
                        false => None,
                    };
                    let extension = params.map(|params| params.response());
                    let bytes = http1::write_upgrade(&accept, protocol, extension.as_deref());
                    if let Some(connection) = self.io.get(conn) {
                        connection.exchange = HttpExchange::None;
                        connection.window = params.map(|params| params.window);
                    }
                    self.io.counters.deflate_negotiated += u64::from(params.is_some());
                    self.io.send(conn, Bytes::from(bytes))
                }
                Err(response) => {
                    self.end_http(conn, &response);
                    false
                }
            },
        }
    }

    fn end_http(&mut self, conn: ConnId, response: &Response) {
        if let Some(connection) = self.io.get(conn) {
            let tag = connection.tag;
            connection
                .send_queue
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
                    let text = match event {
                        // The reader has checked the UTF-8; the cost of this second check is
                        // negligible.
                        Some(FrameEvent::Text(text)) => std::str::from_utf8(text).ok(),
                        Some(FrameEvent::Deflated(payload)) => {
                            let inflater = self.inflater.get_or_insert_default();
                            match inflate(inflater, payload, self.io.limits.message_bytes) {
                                Ok(text) => {
                                    self.io.counters.inflated += 1;
                                    Some(text)
                                }
                                Err(error) => return self.end_broken(conn, error),
                            }
                        }
                        Some(FrameEvent::Ping(payload)) => {
                            let mut frame = Vec::new();
                            websocket::push_pong(&mut frame, None, payload);
                            self.io.send(conn, Bytes::from(frame));
                            None
                        }
                        Some(FrameEvent::Close { code }) => {
                            let code = code.unwrap_or(CLOSE_NORMAL);
                            self.end_websocket(conn, code, CloseReason::PeerClosed);
                            None
                        }
                        Some(FrameEvent::Pong(_)) | None => None,
                    };
                    let is_message = text.is_some();
                    if let Some(text) = text {
                        self.handler.on_message(&mut self.io, conn, text);
                    }
                    input = &input[used..];
                    self.count_frames(conn, reader.take_frames(), is_message);
                    if self.io.get(conn).is_none() {
                        if self.io.is_detaching(conn) {
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
        // Reading an empty slice frees the memory of the last message.
        let _ = reader.read(&[]);
        if let Some(connection) = self.io.get(conn) {
            connection.protocol = Protocol::WebSocket(reader);
        }
    }

    /// Charges frames to the input budget and reports frames that do not end a message.
    fn count_frames(&mut self, conn: ConnId, frames: u32, is_message: bool) {
        self.io.input.charge(frames as usize * REQUEST_CHARGE);
        let others = frames.saturating_sub(u32::from(is_message));
        if others > 0 && self.io.get(conn).is_some() {
            self.handler.on_frames(&mut self.io, conn, others);
        }
    }

    /// Closes a WebSocket with the close code of a protocol violation or an exceeded limit.
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
        websocket::push_close(&mut frame, None, code);
        connection.send_queue.push(Bytes::from(frame));
        self.io.start_closing(conn);
        self.handler.on_closed(&mut self.io, conn, tag, reason);
    }
}

fn inflate<'a>(
    inflater: &'a mut Inflater,
    payload: &[u8],
    limit: usize,
) -> Result<&'a str, FrameError> {
    let text = inflater.inflate(payload, limit)?;
    std::str::from_utf8(text).map_err(|_| FrameError::NotUtf8)
}

fn websocket_accept(request: &HttpRequest<'_>) -> Result<String, Response> {
    if !request.is_websocket_upgrade() {
        return Err(
            Response::text(426, "this path requires a WebSocket upgrade")
                .with_header("Upgrade", "websocket"),
        );
    }
    if request.header("sec-websocket-version") != Some("13") {
        let response = Response::text(426, "only WebSocket version 13 is supported");
        return Err(response.with_header("Sec-WebSocket-Version", "13"));
    }
    let key = request
        .header("sec-websocket-key")
        .filter(|key| key.len() == 24);
    key.map(websocket::accept_key)
        .ok_or_else(|| Response::text(400, "malformed Sec-WebSocket-Key"))
}
