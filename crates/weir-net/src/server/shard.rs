//! The loop itself: poll, read, mail, timers, flush.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::connection::{Connection, Detached, Phase, Protocol};
use super::io::CLOSE_NORMAL;
use super::io::{Due, Io};
use super::pass::Passes;
use super::{Answer, CloseReason, ConnId, Handler, Limits};
use crate::http1::{self, HttpRequest, Parsed, Response};
use crate::mailbox::{MailReceiver, MailSender, mailbox};
use crate::websocket::{self, Event, FrameReader, Role};

const LISTENER: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX - 2);
/// Connections accepted before anything else gets its turn again.
const ACCEPTS_PER_TURN: usize = 256;
/// Mails handled before their output is flushed.
const MAILS_PER_TURN: usize = 256;
/// Connections flushed before new input is looked at: a pass over ten thousand sockets takes
/// 80 ms, and a new session must not wait for it.
const FLUSHES_PER_TURN: usize = 512;
/// Bytes read from one connection before the others get their turn.
const READ_BYTES_PER_TURN: usize = 256 * 1024;
/// Shared by all connections of the shard; none has a read buffer of its own.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Pause before accepting again after the descriptors ran out, in milliseconds.
const ACCEPT_RETRY_MS: u64 = 100;

/// What a shard is made of.
#[derive(Debug)]
pub struct ShardOptions {
    /// A non-blocking listening socket of its own, see [`crate::listener::listen_shared`].
    pub listener: std::net::TcpListener,
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
    listener: TcpListener,
    mail: MailReceiver<H::Mail>,
    io: Io,
    handler: H,
    scratch: Vec<u8>,
    /// More connections may wait than were accepted last turn.
    accept_again: bool,
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
        let mut listener = TcpListener::from_std(options.listener);
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let io = Io::new(poll.registry().try_clone()?, options.limits, options.epoch);
        let shard = Self {
            poll,
            listener,
            mail: receiver,
            io,
            handler,
            scratch: vec![0; READ_BUFFER_BYTES],
            accept_again: false,
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
            self.report_room();
            self.report_lost();
        }
        Ok(())
    }

    /// How long the next poll may sleep; `None` is for ever.
    fn timeout(&mut self) -> Option<Duration> {
        let busy = self.accept_again
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
            LISTENER => self.accept_again = true,
            WAKER => {}
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

    fn accept(&mut self) {
        if !std::mem::take(&mut self.accept_again) || !self.io.accepting {
            return;
        }
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    if self.io.connections() >= self.io.limits.connections {
                        self.io.counters.refused += 1;
                        continue;
                    }
                    // Small messages must leave at once; a socket that cannot say so still works.
                    let _ = stream.set_nodelay(true);
                    let taken = self.io.insert(stream, peer);
                    self.io.counters.accepted += u64::from(taken.is_some());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    // Out of descriptors: those who wait stay in the kernel's queue.
                    tracing::warn!(%error, "cannot accept a connection, trying again");
                    self.io.counters.refused += 1;
                    let at_ms = self.io.now_ms() + ACCEPT_RETRY_MS;
                    self.io.timers.set(at_ms, Due::Accept);
                    return;
                }
            }
        }
        self.accept_again = true;
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
            match connection.stream.read(&mut scratch) {
                Ok(0) => {
                    self.io.lose(conn, CloseReason::PeerClosed);
                    break;
                }
                Ok(count) => {
                    self.io.counters.bytes_in += count as u64;
                    if connection.phase == Phase::Open {
                        self.take_input(conn, &scratch[..count]);
                    }
                    // A short read means the socket is empty, and an edge will tell of more.
                    if count < scratch.len() && !to_end {
                        break;
                    }
                    budget = budget.saturating_sub(count);
                    if budget == 0 {
                        self.read_again.push(conn);
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.io.lose(conn, CloseReason::Lost);
                    break;
                }
            }
        }
        self.scratch = scratch;
    }

    fn read_adopted(&mut self) {
        while let Some((conn, input)) = self.io.adopted.pop() {
            self.take_input(conn, &input);
        }
    }

    /// A WebSocket leaves with what has been read of it.
    fn send_away(&mut self, conn: ConnId, reader: FrameReader, rest: &[u8]) {
        let mut connection = self.io.connections.remove(conn.index as usize);
        // It is registered anew by whoever takes it in; what it may have got meanwhile shows then.
        let _ = self.io.registry.deregister(&mut connection.stream);
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
                    self.end_websocket(conn, error.close_code(), CloseReason::Protocol);
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
                Due::Accept => self.accept_again = true,
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
            // Dropping the socket would do, but an explicit error is worth nothing here either.
            let _ = self.io.registry.deregister(&mut connection.stream);
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

/// Errors of `accept` that concern one connection, not the listener.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
