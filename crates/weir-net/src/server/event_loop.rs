//! The event loop: poll, read, posted events, timers, flush. `input.rs` handles what is read.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use super::connection::{ConnectionPhase, HttpExchange, Protocol, ServerConnection};
use super::flush_schedule::FlushSchedule;
use super::io::{LoopTimer, ServerIo};
use super::listeners::{Listener, Listeners};
use super::{CloseReason, ConnId, ConnectionLimits, ServerHandler};
use crate::mailbox::{MailboxReceiver, MailboxSender, mailbox};
use crate::watchdog::{Activity, Heartbeat};
use crate::websocket::Inflater;

const WAKER: Token = Token(usize::MAX - 1);
/// Posted events handled before their output is flushed.
const POSTED_PER_ITERATION: usize = 256;
/// Connections flushed before new input is handled. A flush round over ten thousand sockets takes
/// 80 ms, which would delay new sessions.
const FLUSHES_PER_ITERATION: usize = 512;
/// Size of the read buffer that all connections of the loop share.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Pause before an iteration continues with input or work that was over budget. It gives other
/// threads CPU time, such as those that bring updates; an event ends it.
const YIELD: Duration = Duration::from_millis(1);

/// Options of an event loop.
#[derive(Debug)]
pub struct EventLoopOptions {
    /// Listeners of the loop, at most 32.
    pub listeners: Vec<Listener>,
    /// Limits of connections and requests.
    pub limits: ConnectionLimits,
    /// Maximum number of posted events that wait; posting blocks when the mailbox is full.
    pub mailbox_capacity: usize,
    /// Zero of [`ServerIo::now_ms`], the same for all event loops.
    pub epoch: Instant,
    /// Records progress for the watchdog.
    pub heartbeat: Arc<Heartbeat>,
}

/// An event loop with its connections and handler.
#[derive(Debug)]
pub struct EventLoop<H: ServerHandler> {
    poll: Poll,
    pub(super) listeners: Listeners,
    mailbox: MailboxReceiver<H::Posted>,
    pub(crate) io: ServerIo,
    pub(crate) handler: H,
    pub(super) scratch: Vec<u8>,
    /// Created for the first compressed message.
    pub(super) inflater: Option<Box<Inflater>>,
    has_more_posted: bool,
    flush_schedule: FlushSchedule,
    pub(super) heartbeat: Arc<Heartbeat>,
}

impl<H: ServerHandler> EventLoop<H> {
    /// Creates the loop; [`Self::run`] starts it.
    ///
    /// # Errors
    /// The operating system provides no epoll or eventfd file descriptor.
    pub fn new(
        options: EventLoopOptions,
        handler: H,
    ) -> io::Result<(Self, MailboxSender<H::Posted>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (sender, receiver) = mailbox(waker, options.mailbox_capacity);
        let listeners = Listeners::open(options.listeners, poll.registry())?;
        let io = ServerIo::new(poll.registry().try_clone()?, options.limits, options.epoch);
        let event_loop = Self {
            poll,
            listeners,
            mailbox: receiver,
            io,
            handler,
            scratch: vec![0; READ_BUFFER_BYTES],
            inflater: None,
            has_more_posted: false,
            flush_schedule: FlushSchedule::new(Instant::now()),
            heartbeat: options.heartbeat,
        };
        Ok((event_loop, sender))
    }

    /// Runs until the handler calls [`ServerIo::stop`].
    ///
    /// # Errors
    /// Polling fails, which only a lack of kernel memory causes.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while self.io.running {
            let timeout = self.timeout();
            if timeout != Some(Duration::ZERO) {
                self.heartbeat.sleep();
            }
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.mailbox.awake();
            self.io.update_clock();
            self.heartbeat.wake(self.io.now_ms());
            self.heartbeat.begin(Activity::ACCEPT);
            self.accept();
            self.io.input.begin_iteration();
            self.read_queued();
            for event in &events {
                self.on_event(event);
            }
            self.heartbeat.begin(Activity::POSTED);
            self.handle_posted();
            self.heartbeat.begin(Activity::TIMERS);
            self.fire_timers();
            self.handler.on_iteration_end(&mut self.io);
            self.heartbeat.begin(Activity::WRITE);
            self.flush();
            if self.io.dirty.is_empty() {
                self.handler.on_flushed(&mut self.io);
            }
            self.report_writable();
            self.report_lost();
        }
        self.heartbeat.sleep();
        Ok(())
    }

    /// Returns the timeout of the next poll; `None` waits for an event.
    fn timeout(&mut self) -> Option<Duration> {
        let busy =
            self.listeners.may_have_pending() || self.has_more_posted || !self.io.lost.is_empty();
        let is_over_budget = std::mem::take(&mut self.io.has_work) || !self.io.input.is_empty();
        if busy || !self.mailbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        let timer = self.io.timers.next_in_ms(self.io.now_ms());
        let timer = timer.map(Duration::from_millis);
        let timer = match is_over_budget {
            true => Some(timer.map_or(YIELD, |timer| timer.min(YIELD))),
            false => timer,
        };
        if self.io.dirty.is_empty() {
            return timer;
        }
        let pause = self.flush_schedule.wait(Instant::now());
        Some(timer.map_or(pause, |timer| timer.min(pause)))
    }

    fn on_event(&mut self, event: &mio::event::Event) {
        match event.token() {
            WAKER => {}
            token if self.listeners.on_readable(token) => {}
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

    fn handle_posted(&mut self) {
        self.has_more_posted = false;
        for _ in 0..POSTED_PER_ITERATION {
            let Some(posted) = self.mailbox.take() else {
                return;
            };
            self.handler.on_posted(&mut self.io, posted);
        }
        self.has_more_posted = true;
    }

    fn fire_timers(&mut self) {
        let mut due = Vec::new();
        let now_ms = self.io.now_ms();
        self.io.timers.expire(now_ms, |timer| due.push(timer));
        for timer in due {
            match timer {
                LoopTimer::Handler(token) => self.handler.on_timer(&mut self.io, token),
                LoopTimer::Accept => self.listeners.retry_all(),
                LoopTimer::Wake => {}
                LoopTimer::Close(conn) => self.close_now(conn),
                LoopTimer::Request(conn) => self.check_request(conn),
            }
        }
    }

    /// Ends a closing connection whose time is over.
    fn close_now(&mut self, conn: ConnId) {
        let current = self.io.connections.get(conn.index as usize);
        if current.is_some_and(|connection| connection.generation == conn.generation) {
            self.io.mark_lost(conn, CloseReason::Idle);
        }
    }

    /// Ends a connection without a complete request in time, or a WebSocket without a tag. Sets the
    /// timer again if a request has arrived since.
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
            self.io.timers.set(deadline_ms, LoopTimer::Request(conn));
        } else {
            self.io.mark_lost(conn, CloseReason::Idle);
        }
    }

    fn flush(&mut self) {
        let now = Instant::now();
        let pending = self.io.dirty.len();
        let count = self
            .flush_schedule
            .allowance(now, pending, FLUSHES_PER_ITERATION);
        for _ in 0..count {
            let Some(index) = self.io.dirty.pop_front() else {
                break;
            };
            self.io.flush(index);
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

    /// Frees lost connections and reports those that are not closing to the handler.
    fn report_lost(&mut self) {
        while let Some((conn, reason)) = self.io.lost.pop() {
            let index = conn.index as usize;
            let known = self.io.connections.get(index);
            if known.is_none_or(|connection| connection.generation != conn.generation) {
                continue;
            }
            let mut connection = self.io.connections.remove(index);
            if connection.parked {
                self.io.input.take_parked(conn);
            }
            self.handler.on_release(connection.admission_id);
            self.io.counters.tls_failures += u64::from(connection.stream.is_handshaking());
            // Dropping the socket deregisters it too, so an error has no effect.
            let _ = self.io.registry.deregister(connection.stream.socket());
            if let ServerConnection {
                phase: ConnectionPhase::Open,
                tag,
                ..
            } = connection
            {
                self.handler.on_closed(&mut self.io, conn, tag, reason);
            }
        }
    }
}
