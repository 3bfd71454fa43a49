//! The loop itself: poll, read, mail, timers, flush.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::{Events, Poll, Token, Waker};

use super::accept::{Doors, Listener};
use super::connection::{Connection, Detached, Phase, Protocol};
use super::io::CLOSE_NORMAL;
use super::io::{Due, Io};
use super::pass::Passes;
use super::{Answer, CloseReason, ConnId, Handler, Limits};
use crate::http1::{self, HttpRequest, Parsed, Response};
use crate::mailbox::{MailReceiver, MailSender, mailbox};
use crate::websocket::{self, Event, FrameReader, Role};

/// The close code for a message over the limit (RFC 6455, section 7.4.1).
const CLOSE_TOO_BIG: u16 = 1009;
const WAKER: Token = Token(usize::MAX - 1);
/// Mails handled before their output is flushed.
const MAILS_PER_TURN: usize = 256;
/// Connections flushed before new input is looked at: a pass over ten thousand sockets takes
/// 80 ms, and a new session must not wait for it.
const FLUSHES_PER_TURN: usize = 512;
/// Bytes read from one connection before the others get their turn.
const READ_BYTES_PER_TURN: usize = 256 * 1024;
/// Shared by all connections of the shard; none has a read buffer of its own.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// What a shard is made of.
#[derive(Debug)]
pub struct ShardOptions {
    /// Where connections come from, at most 32.
    pub listeners: Vec<Listener>,
    /// What peers may cost.
    pub limits: Limits,
    /// Mails the inbox holds; posting waits when it is full.
    pub mail_capacity: usize,
    /// Instant 0 of [`Io::now_ms`], the same for all shards.
    pub epoch: Instant,
}

/// One event loop with its connections and handler.
#[derive(Debug)]
pub struct Shard<H: Handler> {
    poll: Poll,
    pub(super) doors: Doors,
    mail: MailReceiver<H::Mail>,
    pub(super) io: Io,
    pub(super) handler: H,
    scratch: Vec<u8>,
    /// Connections that had more input than one turn reads.
    read_again: Vec<ConnId>,
    mail_again: bool,
    passes: Passes,
}

impl<H: Handler> Shard<H> {
    /// Sets up the loop; nothing runs until [`Self::run`].
    ///
    /// # Errors
    /// When the operating system refuses an epoll or eventfd descriptor.
    pub fn new(options: ShardOptions, handler: H) -> io::Result<(Self, MailSender<H::Mail>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (sender, receiver) = mailbox(waker, options.mail_capacity);
        let doors = Doors::open(options.listeners, poll.registry())?;
        let io = Io::new(poll.registry().try_clone()?, options.limits, options.epoch);
        let shard = Self {
            poll,
            doors,
            mail: receiver,
            io,
            handler,
            scratch: vec![0; READ_BUFFER_BYTES],
            read_again: Vec::new(),
            mail_again: false,
            passes: Passes::new(Instant::now()),
        };
        Ok((shard, sender))
    }

    /// Runs until the handler calls [`Io::stop`].
    ///
    /// # Errors
    /// When polling fails, which only a lack of kernel memory can cause.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while self.io.running {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.mail.awake();
            self.io.update_clock();
            self.accept();
            self.read_rest();
            for event in &events {
                self.on_event(event);
            }
            self.take_mail();
            self.read_adopted();
            self.fire_timers();
            self.handler.on_turn(&mut self.io);
            self.flush();
            if self.io.dirty.is_empty() {
                self.handler.on_flushed(&mut self.io);
            }
            self.report_room();
            self.report_lost();
        }
        Ok(())
    }

    /// How long the next poll may sleep; `None` is for ever.
    fn timeout(&mut self) -> Option<Duration> {
        let busy = self.doors.some_may_wait()
            || self.mail_again
            || !self.read_again.is_empty()
            || !self.io.lost.is_empty();
        if busy || !self.mail.may_sleep() {
            return Some(Duration::ZERO);
        }
        let timer = self.io.timers.next_in_ms(self.io.now_ms());
        let timer = timer.map(Duration::from_millis);
        if self.io.dirty.is_empty() {
            return timer;
        }
        let rest = self.passes.wait(Instant::now());
        Some(timer.map_or(rest, |timer| timer.min(rest)))
    }

    fn on_event(&mut self, event: &mio::event::Event) {
        match event.token() {
            WAKER => {}
            token if self.doors.knock(token) => {}
            Token(index) => {
                let Some(connection) = self.io.connections.get_mut(index) else {
                    return;
                };
                let conn = ConnId {
                    index: index as u32,
                    generation: connection.generation,
                };
                if event.is_writable() && connection.blocked {
                    connection.blocked = false;
                    self.io.mark_dirty(conn.index);
                }
                if event.is_readable() || event.is_error() {
                    self.read(conn, event.is_read_closed());
                }
            }
        }
    }

    fn read_rest(&mut self) {
        for conn in std::mem::take(&mut self.read_again) {
            self.read(conn, true);
        }
    }

    /// Reads what a connection has, until it has no more or has had its share. `to_end`: the peer
    /// has closed its direction, so a short read is not the end of it.
    fn read(&mut self, conn: ConnId, to_end: bool) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut budget = READ_BYTES_PER_TURN;
        while let Some(connection) = self.io.connections.get_mut(conn.index as usize) {
            if connection.generation != conn.generation {
                break;
            }
            let handshaking = connection.stream.is_handshaking();
            match connection.stream.read(&mut scratch, &mut self.io.tls) {
                Ok(input) => {
                    self.io.counters.bytes_in += input.wire as u64;
                    let open = connection.phase == Phase::Open;
                    if connection.stream.wants_write() {
                        self.io.mark_dirty(conn.index);
                    }
                    if handshaking {
                        self.note_handshake(conn);
                    }
                    if open && input.plain > 0 {
                        self.take_input(conn, &scratch[..input.plain]);
                    }
                    if input.ended {
                        self.io.lose(conn, CloseReason::PeerClosed);
                        break;
                    }
                    // A short read means the socket is empty, and an edge will tell of more.
                    if input.drained && !to_end {
                        break;
                    }
                    budget = budget.saturating_sub(input.wire);
                    if budget == 0 {
                        self.read_again.push(conn);
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if handshaking {
                        tracing::debug!(%error, "TLS handshake failed");
                    }
                    self.io.lose(conn, CloseReason::Lost);
                    break;
                }
            }
        }
        self.scratch = scratch;
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

    fn read_adopted(&mut self) {
        while let Some((conn, input)) = self.io.adopted.pop() {
            self.take_input(conn, &input);
        }
    }

    /// A WebSocket leaves with what has been read of it.
    fn send_away(&mut self, conn: ConnId, reader: FrameReader, rest: &[u8]) {
        let mut connection = self.io.connections.remove(conn.index as usize);
        self.handler.on_departure(connection.ticket);
        // It is registered anew by whoever takes it in; what it may have got meanwhile shows then.
        let _ = self.io.registry.deregister(connection.stream.socket());
        let detached = Detached {
            stream: connection.stream,
            outbox: connection.outbox,
            reader,
            input: rest.to_vec(),
        };
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
                let buffer = std::mem::take(&mut http.buffer);
                let mut used = 0;
                let mut upgraded = false;
                while let Some(step) = self.next_request(conn, &buffer[used..], http.peer) {
                    used += step.used;
                    http.deadline_ms = self.io.now_ms() + self.io.limits.request_ms;
                    if step.upgraded {
                        upgraded = true;
                        break;
                    }
                }
                let Some(connection) = self.io.get(conn) else {
                    return;
                };
                if upgraded {
                    let reader = FrameReader::new(Role::Server, self.io.limits.message_bytes);
                    self.read_frames(conn, reader, &buffer[used..]);
                } else {
                    http.buffer = buffer;
                    http.buffer.drain(..used);
                    connection.protocol = Protocol::Http(http);
                }
            }
            Protocol::WebSocket(reader) => self.read_frames(conn, reader, input),
            Protocol::Taken => {}
        }
    }

    /// Handles the first request in `buffer`; `None` when it is not whole or the connection ends.
    fn next_request(
        &mut self,
        conn: ConnId,
        buffer: &[u8],
        peer: std::net::SocketAddr,
    ) -> Option<Step> {
        if buffer.is_empty() {
            return None;
        }
        match http1::parse_request(buffer, self.io.limits.http, peer) {
            Ok(Parsed::Partial) => None,
            Ok(Parsed::Complete(request, used)) => {
                let upgraded = self.answer(conn, &request)?;
                Some(Step { used, upgraded })
            }
            Err(error) => {
                self.io.counters.oversized += u64::from(matches!(error.status, 413 | 431));
                let bytes = Response::text(error.status, error.reason).to_bytes(false);
                self.end_http(conn, bytes, CloseReason::Protocol);
                None
            }
        }
    }

    /// Whether the connection is a WebSocket now; `None` when it ends with this answer.
    fn answer(&mut self, conn: ConnId, request: &HttpRequest<'_>) -> Option<bool> {
        let answer = self.handler.on_request(&mut self.io, conn, request);
        match answer {
            Answer::Reply(response) => {
                let bytes = response.to_bytes(request.keep_alive);
                if !request.keep_alive {
                    self.end_http(conn, bytes, CloseReason::PeerClosed);
                    return None;
                }
                self.io.send(conn, Bytes::from(bytes)).then_some(false)
            }
            Answer::WebSocket { protocol } => match websocket_accept(request) {
                Ok(accept) => {
                    let bytes = http1::write_upgrade(&accept, protocol);
                    self.io.send(conn, Bytes::from(bytes)).then_some(true)
                }
                Err(response) => {
                    self.end_http(conn, response.to_bytes(false), CloseReason::Protocol);
                    None
                }
            },
        }
    }

    /// Sends a last HTTP answer; the handler may have tagged the connection and must hear of it.
    fn end_http(&mut self, conn: ConnId, bytes: Vec<u8>, reason: CloseReason) {
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        let tag = connection.tag;
        connection.outbox.push(Bytes::from(bytes));
        self.io.start_closing(conn);
        self.handler.on_closed(&mut self.io, conn, tag, reason);
    }

    fn read_frames(&mut self, conn: ConnId, mut reader: FrameReader, mut input: &[u8]) {
        while !input.is_empty() {
            match reader.read(input) {
                Ok((used, event)) => {
                    match event {
                        Some(Event::Text(text)) => {
                            // The reader has checked it; a second look costs nothing that counts.
                            let text = std::str::from_utf8(text).unwrap_or_default();
                            self.handler.on_message(&mut self.io, conn, text);
                        }
                        Some(Event::Ping(payload)) => {
                            let mut frame = Vec::with_capacity(payload.len() + 2);
                            websocket::push_pong(&mut frame, None, payload);
                            self.io.send(conn, Bytes::from(frame));
                        }
                        Some(Event::Close { code }) => {
                            let code = code.unwrap_or(CLOSE_NORMAL);
                            self.end_websocket(conn, code, CloseReason::PeerClosed);
                        }
                        Some(Event::Pong(_)) | None => {}
                    }
                    input = &input[used..];
                    if self.io.get(conn).is_none() {
                        if self.io.is_leaving(conn) {
                            self.send_away(conn, reader, input);
                        }
                        return;
                    }
                }
                Err(error) => {
                    let code = error.close_code();
                    self.io.counters.oversized += u64::from(code == CLOSE_TOO_BIG);
                    self.end_websocket(conn, code, CloseReason::Protocol);
                    return;
                }
            }
        }
        // An empty read frees the memory of the last message.
        let _ = reader.read(&[]);
        if let Some(connection) = self.io.get(conn) {
            connection.protocol = Protocol::WebSocket(reader);
        }
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

    fn take_mail(&mut self) {
        self.mail_again = false;
        for _ in 0..MAILS_PER_TURN {
            let Some(mail) = self.mail.take() else { return };
            self.handler.on_mail(&mut self.io, mail);
        }
        self.mail_again = true;
    }

    fn fire_timers(&mut self) {
        let mut due = Vec::new();
        let now_ms = self.io.now_ms();
        self.io.timers.expire(now_ms, |timer| due.push(timer));
        for timer in due {
            match timer {
                Due::Handler(token) => self.handler.on_timer(&mut self.io, token),
                Due::Accept => self.doors.try_all(),
                Due::Wake => {}
                Due::Close(conn) => self.close_now(conn),
                Due::Request(conn) => self.check_request(conn),
            }
        }
    }

    /// The time for a connection's last bytes is over.
    fn close_now(&mut self, conn: ConnId) {
        let current = self.io.connections.get(conn.index as usize);
        if current.is_some_and(|connection| connection.generation == conn.generation) {
            self.io.lose(conn, CloseReason::Idle);
        }
    }

    /// Ends a connection whose request does not come or that nobody claims; looks again later if a
    /// request came meanwhile.
    fn check_request(&mut self, conn: ConnId) {
        let now_ms = self.io.now_ms();
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        let deadline_ms = match &connection.protocol {
            Protocol::Http(http) => http.deadline_ms,
            _ if connection.tag != 0 => return,
            _ => now_ms,
        };
        if now_ms < deadline_ms {
            self.io.timers.set(deadline_ms, Due::Request(conn));
        } else {
            self.io.lose(conn, CloseReason::Idle);
        }
    }

    fn flush(&mut self) {
        let now = Instant::now();
        let pending = self.io.dirty.len();
        let count = self.passes.allowance(now, pending, FLUSHES_PER_TURN);
        for _ in 0..count {
            let Some(index) = self.io.dirty.pop_front() else {
                break;
            };
            self.io.flush(index);
        }
        let pending = self.io.dirty.len();
        self.passes.wrote(Instant::now(), count, pending);
    }

    /// What the handler sends now leaves with the next turn, which comes at once.
    fn report_room(&mut self) {
        while let Some(conn) = self.io.roomy.pop() {
            if let Some(tag) = self.io.tag(conn) {
                self.handler.on_room(&mut self.io, conn, tag);
            }
        }
    }

    /// Frees connections that are gone and tells the handler of those it still counts on.
    fn report_lost(&mut self) {
        while let Some((conn, reason)) = self.io.lost.pop() {
            let index = conn.index as usize;
            let known = self.io.connections.get(index);
            if known.is_none_or(|connection| connection.generation != conn.generation) {
                continue;
            }
            let mut connection = self.io.connections.remove(index);
            self.handler.on_departure(connection.ticket);
            self.io.counters.tls_failures += u64::from(connection.stream.is_handshaking());
            // Dropping the socket would do, but an explicit error is worth nothing here either.
            let _ = self.io.registry.deregister(connection.stream.socket());
            if let Connection {
                phase: Phase::Open,
                tag,
                ..
            } = connection
            {
                self.handler.on_closed(&mut self.io, conn, tag, reason);
            }
        }
    }
}

/// One handled request.
struct Step {
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
