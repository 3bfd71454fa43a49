//! The loop itself: poll, mail, timers, flush; what is read goes to `input`.

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
/// Mails handled before their output is flushed.
const MAILS_PER_ITERATION: usize = 256;
/// Connections flushed before new input is looked at: a pass over ten thousand sockets takes
/// 80 ms, and a new session must not wait for it.
const FLUSHES_PER_ITERATION: usize = 512;
/// Shared by all connections of the shard; none has a read buffer of its own.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Pause before an iteration goes on with input or work that was over budget. Other threads, those
/// that bring updates among them, get the processor; an event ends the pause.
const YIELD: Duration = Duration::from_millis(1);

/// What a shard is made of.
#[derive(Debug)]
pub struct ShardOptions {
    /// Where connections come from, at most 32.
    pub listeners: Vec<Listener>,
    /// What peers may cost.
    pub limits: ConnectionLimits,
    /// Mails the inbox holds; posting waits when it is full.
    pub mail_capacity: usize,
    /// Instant 0 of [`Io::now_ms`], the same for all shards.
    pub epoch: Instant,
    /// Where the loop marks its progress.
    pub heartbeat: Arc<Heartbeat>,
}

/// One event loop with its connections and handler.
#[derive(Debug)]
pub struct EventLoop<H: ServerHandler> {
    poll: Poll,
    pub(super) listeners: Listeners,
    mail: MailboxReceiver<H::Mail>,
    pub(crate) io: ServerIo,
    pub(crate) handler: H,
    pub(super) scratch: Vec<u8>,
    /// Made when the first compressed message comes.
    pub(super) inflater: Option<Box<Inflater>>,
    mail_again: bool,
    passes: FlushSchedule,
    pub(super) heartbeat: Arc<Heartbeat>,
}

impl<H: ServerHandler> EventLoop<H> {
    /// Sets up the loop; nothing runs until [`Self::run`].
    ///
    /// # Errors
    /// When the operating system refuses an epoll or eventfd descriptor.
    pub fn new(options: ShardOptions, handler: H) -> io::Result<(Self, MailboxSender<H::Mail>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (sender, receiver) = mailbox(waker, options.mail_capacity);
        let listeners = Listeners::open(options.listeners, poll.registry())?;
        let io = ServerIo::new(poll.registry().try_clone()?, options.limits, options.epoch);
        let shard = Self {
            poll,
            listeners,
            mail: receiver,
            io,
            handler,
            scratch: vec![0; READ_BUFFER_BYTES],
            inflater: None,
            mail_again: false,
            passes: FlushSchedule::new(Instant::now()),
            heartbeat: options.heartbeat,
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
            if timeout != Some(Duration::ZERO) {
                self.heartbeat.sleep();
            }
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.mail.awake();
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
            self.take_mail();
            self.heartbeat.begin(Activity::TIMERS);
            self.fire_timers();
            self.handler.on_turn(&mut self.io);
            self.heartbeat.begin(Activity::WRITE);
            self.flush();
            if self.io.dirty.is_empty() {
                self.handler.on_flushed(&mut self.io);
            }
            self.report_room();
            self.report_lost();
        }
        self.heartbeat.sleep();
        Ok(())
    }

    /// How long the next poll may sleep; `None` is for ever.
    fn timeout(&mut self) -> Option<Duration> {
        let busy = self.listeners.some_may_wait() || self.mail_again || !self.io.lost.is_empty();
        let is_over_budget = std::mem::take(&mut self.io.has_work) || !self.io.input.is_empty();
        if busy || !self.mail.may_sleep() {
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
        let rest = self.passes.wait(Instant::now());
        Some(timer.map_or(rest, |timer| timer.min(rest)))
    }

    fn on_event(&mut self, event: &mio::event::Event) {
        match event.token() {
            WAKER => {}
            token if self.listeners.knock(token) => {}
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

    fn take_mail(&mut self) {
        self.mail_again = false;
        for _ in 0..MAILS_PER_ITERATION {
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
                LoopTimer::Handler(token) => self.handler.on_timer(&mut self.io, token),
                LoopTimer::Accept => self.listeners.try_all(),
                LoopTimer::Wake => {}
                LoopTimer::Close(conn) => self.close_now(conn),
                LoopTimer::Request(conn) => self.check_request(conn),
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
        let (now_ms, request_ms) = (self.io.now_ms(), self.io.limits.request_ms);
        let Some(connection) = self.io.get(conn) else {
            return;
        };
        let deadline_ms = match &connection.protocol {
            Protocol::Http(_) if connection.exchange != HttpExchange::None => now_ms + request_ms,
            Protocol::Http(http) => http.deadline_ms,
            _ if connection.tag != 0 => return,
            _ => now_ms,
        };
        if now_ms < deadline_ms {
            self.io.timers.set(deadline_ms, LoopTimer::Request(conn));
        } else {
            self.io.lose(conn, CloseReason::Idle);
        }
    }

    fn flush(&mut self) {
        let now = Instant::now();
        let pending = self.io.dirty.len();
        let count = self.passes.allowance(now, pending, FLUSHES_PER_ITERATION);
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
            if connection.parked {
                self.io.input.take_parked(conn);
            }
            self.handler.on_departure(connection.ticket);
            self.io.counters.tls_failures += u64::from(connection.stream.is_handshaking());
            // Dropping the socket would do, but an explicit error is worth nothing here either.
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
