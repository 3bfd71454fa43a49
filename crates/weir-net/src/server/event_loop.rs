//! The gateway's handler of an event loop: reads, posted events, timers, flush rounds. `input.rs`
//! handles the bytes that are read.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Events;
use mio::event::Event;
use mio::net::TcpStream;

use super::connection::{ConnectionPhase, HttpExchange, Protocol};
use super::flush_schedule::FlushSchedule;
use super::io::{LoopTimer, ServerIo};
use super::{CloseReason, ConnId, ConnectionLimits, Listener, ServerHandler};
use crate::event_loop::{self, LoopCore, LoopHandler};
use crate::limited;
use crate::mailbox::MailboxSender;
use crate::stream::SocketStream;
use crate::tls::TlsAcceptor;
use crate::watchdog::{Activity, Heartbeat};
use crate::websocket::Inflater;

/// Connections flushed before new input is handled. A flush round over ten thousand sockets takes
/// 80 ms, which would delay new sessions.
const FLUSHES_PER_ITERATION: usize = 512;
/// Size of the read buffer that all connections of the loop share.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Pause before the iteration that continues with input or work over budget. It gives other threads
/// CPU time, such as those that read updates. An event ends it.
const YIELD: Duration = Duration::from_millis(1);

/// Options of an event loop.
#[derive(Debug)]
pub struct EventLoopOptions {
    /// Listeners of the loop.
    pub listeners: Vec<Listener>,
    /// Limits of connections and requests.
    pub limits: ConnectionLimits,
    /// Maximum number of posted events that wait; posting blocks when the mailbox is full.
    pub mailbox_capacity: usize,
    /// Records progress for the watchdog; its epoch is the zero of [`ServerIo::now_ms`].
    pub heartbeat: Arc<Heartbeat>,
}

/// Connections of an event loop, with their handler.
#[derive(Debug)]
pub struct Server<H> {
    pub(crate) io: ServerIo,
    pub(crate) handler: H,
    pub(super) scratch: Vec<u8>,
    /// Created for the first compressed message.
    pub(super) inflater: Option<Box<Inflater>>,
    flush_schedule: FlushSchedule,
}

/// An event loop with its connections and handler.
pub type EventLoop<H> = event_loop::EventLoop<Server<H>>;

impl<H: ServerHandler> EventLoop<H> {
    /// Creates the loop; [`Self::run`] starts it.
    pub fn new(
        options: EventLoopOptions,
        handler: H,
    ) -> io::Result<(Self, MailboxSender<H::Posted>)> {
        let (capacity, limit) = (options.mailbox_capacity, options.limits.descriptor_limit);
        Self::open(options.heartbeat, capacity, limit, |mut core, _| {
            for listener in options.listeners {
                core.listen(listener.socket, listener.tls)?;
            }
            Ok(Server {
                io: ServerIo::new(core, options.limits),
                handler,
                scratch: vec![0; READ_BUFFER_BYTES],
                inflater: None,
                flush_schedule: FlushSchedule::new(Instant::now()),
            })
        })
    }
}

impl<H: ServerHandler> LoopHandler for Server<H> {
    type Posted = H::Posted;
    type Timer = LoopTimer;
    type Listener = Option<Arc<TlsAcceptor>>;
    const ACCEPTS: usize = 256;
    const POSTED: usize = 256;

    fn core(&mut self) -> &mut LoopCore<LoopTimer, Self::Listener> {
        &mut self.io.core
    }

    fn wait_max(&mut self) -> Option<Duration> {
        if !self.io.lost.is_empty() {
            return Some(Duration::ZERO);
        }
        let is_over_budget = std::mem::take(&mut self.io.has_work) || !self.io.input.is_empty();
        let flush = (!self.io.dirty.is_empty()).then(|| self.flush_schedule.wait(Instant::now()));
        flush
            .into_iter()
            .chain(is_over_budget.then_some(YIELD))
            .min()
    }

    fn begin(&mut self, _events: &Events) {
        self.io.input.begin_iteration();
        self.read_queued();
    }

    fn on_event(&mut self, token: usize, event: &Event) {
        let Some((conn, connection)) = self.io.connections.at(token) else {
            return;
        };
        if event.is_writable() && connection.blocked {
            connection.blocked = false;
            self.io.mark_dirty(conn);
        }
        if event.is_readable() || event.is_error() {
            self.read(conn, event.is_read_closed());
        }
    }

    fn on_accept(&mut self, socket: TcpStream, peer: SocketAddr, tls: Self::Listener) {
        if self.io.connections() >= self.io.limits.connections {
            self.io.counters.rejected += 1;
            return;
        }
        let Some(admission_id) = self.handler.on_accept(peer) else {
            return;
        };
        let timeout_ms = match &tls {
            Some(acceptor) => acceptor.handshake_timeout_ms(),
            None => self.io.limits.request_timeout_ms,
        };
        let conn = match SocketStream::accepted(socket, tls.as_deref()) {
            Ok(stream) => self.io.insert(stream, peer, timeout_ms),
            Err(error) => {
                limited!(warn, "TLS setup failed", %error, "failed to create TLS session");
                self.io.counters.tls_failures += 1;
                None
            }
        };
        match conn {
            Some(conn) => {
                self.io.set_admission_id(conn, admission_id);
                self.io.counters.accepted += 1;
            }
            None => self.handler.on_release(admission_id),
        }
    }

    fn on_accept_paused(&mut self) {
        self.io.counters.rejected += 1;
    }

    fn on_posted(&mut self, posted: H::Posted) {
        self.handler.on_posted(&mut self.io, posted);
    }

    fn on_timer(&mut self, timer: LoopTimer) {
        match timer {
            LoopTimer::Handler(token) => self.handler.on_timer(&mut self.io, token),
            LoopTimer::Wake => {}
            // The peer of a closing connection has not closed it in time.
            LoopTimer::Close(conn) => self.io.mark_lost(conn, CloseReason::Idle),
            LoopTimer::Request(conn) => self.check_request(conn),
        }
    }

    fn end(&mut self) {
        self.handler.on_iteration_end(&mut self.io);
        self.io.core.heartbeat.begin(Activity::WRITE);
        self.flush();
        if self.io.dirty.is_empty() {
            self.handler.on_flushed(&mut self.io);
        }
        self.report_writable();
        self.report_lost();
    }
}

impl<H: ServerHandler> Server<H> {
    /// Ends an HTTP connection without a complete request in time, or a WebSocket whose tag the
    /// handler has not set. Sets the timer again if a request has arrived since.
    fn check_request(&mut self, conn: ConnId) {
        let (now_ms, request_timeout_ms) = (self.io.now_ms(), self.io.limits.request_timeout_ms);
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        let deadline_ms = match &connection.protocol {
            Protocol::Http(_) if connection.exchange != HttpExchange::None => {
                now_ms + request_timeout_ms
            }
            Protocol::Http(http) => http.deadline_ms,
            _ if connection.tag != 0 => return,
            _ => now_ms,
        };
        if now_ms < deadline_ms {
            self.io
                .core
                .set_timer(deadline_ms, LoopTimer::Request(conn));
        } else {
            self.io.mark_lost(conn, CloseReason::Idle);
        }
    }

    fn flush(&mut self) {
        let (now, pending) = (Instant::now(), self.io.dirty.len());
        let schedule = &mut self.flush_schedule;
        let count = schedule.allowance(now, pending, FLUSHES_PER_ITERATION);
        for index in 0..count {
            let Some(conn) = self.io.dirty.pop_front() else {
                break;
            };
            self.io.flush(conn);
            if index == 0 {
                self.handler.on_first_written();
            }
        }
        let pending = self.io.dirty.len();
        self.flush_schedule
            .on_written(Instant::now(), count, pending);
    }

    /// Calls the handler for connections with an empty send queue. Output queued here is flushed in
    /// the next iteration, which follows at once.
    fn report_writable(&mut self) {
        while let Some(conn) = self.io.writable.pop() {
            if let Some(tag) = self.io.tag(conn) {
                self.handler.on_writable(&mut self.io, conn, tag);
            }
        }
    }

    /// Frees lost connections. Calls `on_closed` for those that were not closing already.
    fn report_lost(&mut self) {
        while let Some((conn, reason)) = self.io.lost.pop() {
            let Some(mut connection) = self.io.connections.remove(conn) else {
                continue;
            };
            if connection.parked {
                self.io.input.take_parked(conn);
            }
            self.handler.on_release(connection.admission_id);
            self.io.counters.tls_failures += u64::from(connection.stream.is_handshaking());
            self.io.core.deregister(connection.stream.socket());
            if connection.phase == ConnectionPhase::Open {
                let tag = connection.tag;
                self.handler.on_closed(&mut self.io, conn, tag, reason);
            }
            self.handler.on_removed(conn);
        }
    }
}
