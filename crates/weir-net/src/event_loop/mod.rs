//! Event loop of servers, clients and proxies: polling, posted events, listeners, timers.
//!
//! A [`LoopHandler`] owns the connections and a [`LoopCore`], and decides what an event of a
//! connection means. Loops are compiled per handler, so an event costs no dynamic call.

mod alarm;
mod connections;
mod listeners;

pub use connections::{ConnId, Connections};
pub use listeners::Listeners;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use mio::event::{Event, Source};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token, Waker};

use alarm::Alarm;

use crate::limited;
use crate::mailbox::{MailboxReceiver, MailboxSender, mailbox};
use crate::timer::TimerWheel;
use crate::watchdog::{Activity, Heartbeat};

const WAKER: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
/// Maximum number of events that one poll returns.
const EVENTS_PER_POLL: usize = 1024;
/// Pause in milliseconds before accepting again when file descriptors are exhausted.
const ACCEPT_RETRY_MS: u64 = 100;

/// Handler of the events of an event loop. An iteration calls [`Self::begin`], handles events of
/// connections, accepts, handles posted events and timers, and calls [`Self::end`].
pub trait LoopHandler: Sized {
    /// Event that other threads post.
    type Posted;
    /// Purpose of a timer.
    type Timer;
    /// Properties of a listener.
    type Listener: Clone;
    /// Connections accepted per iteration.
    const ACCEPTS: usize;
    /// Posted events handled per iteration.
    const POSTED: usize;

    /// Returns the state of the loop that the handler owns.
    fn core(&mut self) -> &mut LoopCore<Self::Timer, Self::Listener>;
    /// Returns the maximum time until the next iteration; `None` waits for an event or a timer.
    fn wait_max(&mut self) -> Option<Duration>;
    /// Called at the start of an iteration with its events, none of which is handled yet.
    fn begin(&mut self, events: &Events);
    /// Called for an event of a connection registered with `token`.
    fn on_event(&mut self, token: usize, event: &Event);
    /// Called for a new connection.
    fn on_accept(&mut self, socket: TcpStream, peer: SocketAddr, listener: Self::Listener);
    /// Called when accepting failed and is paused for `ACCEPT_RETRY_MS`.
    fn on_accept_paused(&mut self);
    /// Called for a posted event.
    fn on_posted(&mut self, posted: Self::Posted);
    /// Called when a timer has expired.
    fn on_timer(&mut self, timer: Self::Timer);
    /// Called at the end of an iteration.
    fn end(&mut self);
}

/// State of an event loop that its handler uses.
#[derive(Debug)]
pub struct LoopCore<T, L> {
    /// Listening sockets.
    pub listeners: Listeners<L>,
    /// Progress of the loop, which the watchdog checks.
    pub heartbeat: Arc<Heartbeat>,
    registry: Registry,
    timers: TimerWheel<CoreTimer<T>>,
    now_ms: u64,
    descriptor_limit: RawFd,
    running: bool,
}

/// Purpose of a timer.
#[derive(Debug)]
enum CoreTimer<T> {
    /// Resumes accepting.
    Accept,
    /// Belongs to the handler.
    Handler(T),
}

impl<T, L> LoopCore<T, L> {
    /// Returns the start of this iteration in milliseconds since the epoch of the heartbeat.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Sets a timer that expires at `at_ms` or up to one tick later. It cannot be cancelled: the
    /// handler checks on expiry if it still applies.
    pub fn set_timer(&mut self, at_ms: u64, timer: T) {
        self.timers.set(at_ms, CoreTimer::Handler(timer));
    }

    /// Registers a socket for both directions, edge-triggered.
    pub fn register(&self, socket: &mut impl Source, token: usize) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(socket, Token(token), interest)
    }

    /// Changes the token of a registered socket. An event reports its current state.
    pub fn reregister(&self, socket: &mut impl Source, token: usize) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.reregister(socket, Token(token), interest)
    }

    /// Ends the events of a socket that is closed or moves to another loop.
    pub fn deregister(&self, socket: &mut impl Source) {
        // Closing the socket deregisters it too, so an error has no effect.
        let _ = self.registry.deregister(socket);
    }

    /// Returns the registry, for sockets that need events of one direction only.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Adds a listening socket.
    pub fn listen(&mut self, socket: std::net::TcpListener, listener: L) -> io::Result<()> {
        self.listeners.open(socket, listener, &self.registry)
    }

    /// Ends the loop after this iteration.
    pub fn stop(&mut self) {
        self.running = false;
    }

    fn update_clock(&mut self) {
        self.now_ms = self.heartbeat.now_ms();
    }
}

/// An event loop with its handler.
#[derive(Debug)]
pub struct EventLoop<H: LoopHandler> {
    poll: Poll,
    alarm: Alarm,
    mailbox: MailboxReceiver<H::Posted>,
    has_more_posted: bool,
    pub(crate) handler: H,
}

impl<H: LoopHandler> EventLoop<H> {
    /// Creates a loop with the handler that `handler` returns; [`Self::run`] starts it. Posting
    /// blocks while `mailbox_capacity` events wait. Accepted connections must not use file
    /// descriptors from `descriptor_limit` on, see [`crate::descriptors`].
    pub fn open(
        heartbeat: Arc<Heartbeat>,
        mailbox_capacity: usize,
        descriptor_limit: RawFd,
        handler: impl FnOnce(
            LoopCore<H::Timer, H::Listener>,
            &MailboxSender<H::Posted>,
        ) -> io::Result<H>,
    ) -> io::Result<(Self, MailboxSender<H::Posted>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (sender, mailbox) = mailbox(waker, mailbox_capacity);
        let mut core = LoopCore {
            listeners: Listeners::default(),
            heartbeat,
            registry: poll.registry().try_clone()?,
            timers: TimerWheel::new(0),
            now_ms: 0,
            descriptor_limit,
            running: true,
        };
        core.update_clock();
        core.timers = TimerWheel::new(core.now_ms);
        let event_loop = Self {
            alarm: Alarm::new(poll.registry(), ALARM)?,
            poll,
            mailbox,
            has_more_posted: false,
            handler: handler(core, &sender)?,
        };
        Ok((event_loop, sender))
    }

    /// Runs until the handler calls [`LoopCore::stop`].
    ///
    /// # Errors
    /// Polling fails, which only a lack of kernel memory causes.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_POLL);
        while self.handler.core().running {
            let timeout = self.timeout();
            if timeout != Some(Duration::ZERO) {
                self.handler.core().heartbeat.sleep();
            }
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.has_more_posted |= self.mailbox.awake();
            let core = self.handler.core();
            core.update_clock();
            core.heartbeat.wake(core.now_ms);
            self.handler.begin(&events);
            for event in &events {
                let token = event.token();
                let is_own = token == WAKER || token == ALARM;
                if !is_own && !self.handler.core().listeners.on_readable(token) {
                    self.handler.on_event(token.0, event);
                }
            }
            self.accept();
            self.handle_posted();
            self.fire_timers();
            self.handler.end();
        }
        self.handler.core().heartbeat.sleep();
        Ok(())
    }

    fn timeout(&mut self) -> Option<Duration> {
        let wait_max = self.handler.wait_max();
        let core = self.handler.core();
        let is_busy = wait_max == Some(Duration::ZERO)
            || self.has_more_posted
            || core.listeners.may_have_pending();
        if is_busy || !self.mailbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        let timer = core.timers.next_in_ms(core.now_ms);
        let timer = timer.and_then(|in_ms| self.alarm.poll_timeout(core.now_ms, in_ms));
        let timer = timer.map(Duration::from_millis);
        timer.into_iter().chain(wait_max).min()
    }

    /// Accepts pending connections. When file descriptors run out, pending connections stay in the
    /// kernel's queue.
    fn accept(&mut self) {
        let core = self.handler.core();
        if !core.listeners.may_have_pending() {
            return;
        }
        core.heartbeat.begin(Activity::ACCEPT);
        for _ in 0..H::ACCEPTS {
            let core = self.handler.core();
            match core.listeners.accept() {
                Ok(None) => return,
                Ok(Some((socket, ..))) if socket.as_raw_fd() >= core.descriptor_limit => {
                    limited!(
                        warn,
                        "reserved file descriptors reached",
                        "file descriptors exhausted, paused accepting"
                    );
                    return self.pause_accepting();
                }
                Ok(Some((socket, peer, listener))) => {
                    // Avoids delays of small messages. The socket also works without this option.
                    let _ = socket.set_nodelay(true);
                    self.handler.on_accept(socket, peer, listener);
                }
                Err(error) => {
                    limited!(
                        warn,
                        "connection not accepted",
                        %error,
                        "failed to accept connection, retrying"
                    );
                    return self.pause_accepting();
                }
            }
        }
    }

    fn pause_accepting(&mut self) {
        let core = self.handler.core();
        core.listeners.pause();
        let at_ms = core.now_ms + ACCEPT_RETRY_MS;
        core.timers.set(at_ms, CoreTimer::Accept);
        self.handler.on_accept_paused();
    }

    fn handle_posted(&mut self) {
        if !self.has_more_posted {
            return;
        }
        self.handler.core().heartbeat.begin(Activity::POSTED);
        for _ in 0..H::POSTED {
            let Some(posted) = self.mailbox.take() else {
                break;
            };
            self.handler.on_posted(posted);
        }
        self.has_more_posted = !self.mailbox.is_empty();
    }

    fn fire_timers(&mut self) {
        let core = self.handler.core();
        core.heartbeat.begin(Activity::TIMERS);
        let mut due = Vec::new();
        core.timers.expire(core.now_ms, |timer| due.push(timer));
        for timer in due {
            match timer {
                CoreTimer::Accept => self.handler.core().listeners.resume(),
                CoreTimer::Handler(timer) => self.handler.on_timer(timer),
            }
        }
    }
}

#[cfg(test)]
mod tests;
