//! One event loop: polling, events from other threads, and timers. `forward` moves the bytes of a
//! pair.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use weir_net::descriptors::client_ceiling;
use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::timer::TimerWheel;
use weir_net::watchdog::{Activity, Heartbeat};
use weir_net::{MailboxReceiver, MailboxSender, mailbox};

use super::accept::{AcceptedConnection, Admission, Listeners};
use super::counters::{LoopCounters, LoopMetrics};
use super::events::{ListenerTarget, LoopEvent, PairId};
use super::filter_pool::FilterPool;
use super::iteration::{IterationLimits, READ_BYTES};
use super::loop_state::{LoopCluster, LoopState, LoopTimer, PairCloseReason};
use super::memory::Memory;
use super::pair::{ConnectionPair, Upstream};
use super::pipe::PipePool;
use super::stream::SocketStream;
use crate::config::{HostPort, ProxyLimits};
use crate::filter::FilterBuffers;
use crate::resolve::Resolver;
use crate::wire::{Segments, StreamError};

const WAKER: Token = Token(usize::MAX);
/// Maximum number of connections accepted per iteration.
const ACCEPTS_PER_ITERATION: usize = 64;
/// Maximum number of posted events handled per iteration.
const EVENTS_PER_ITERATION: usize = 64;
/// Capacity of the inbox.
const INBOX_MAX: usize = 1024;
/// Pause before accepting again after file descriptors ran out, in milliseconds.
const ACCEPT_RETRY_MS: u64 = 100;
/// Interval between updates of the buffered-bytes gauge, in milliseconds.
const BUFFERED_INTERVAL_MS: u64 = 1_000;

/// Minimum interval between log messages about limits on filter work, in milliseconds.
const LIMIT_LOG_INTERVAL_MS: u64 = 10_000;

/// The parts of an event loop.
#[derive(Debug)]
pub(crate) struct LoopOptions {
    pub(crate) clusters: Vec<LoopCluster>,
    pub(crate) limits: ProxyLimits,
    /// Splices large bodies inside the kernel.
    pub(crate) splice: bool,
    pub(crate) admission: Arc<Admission>,
    pub(crate) resolver: Resolver,
    pub(crate) memory: Arc<Memory>,
    /// Filter threads; `None` if there are no filters.
    pub(crate) pool: Option<Arc<FilterPool>>,
    pub(crate) metrics: Arc<LoopMetrics>,
    /// Records the loop's progress. Uses the same epoch as the loop.
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) epoch: Instant,
}

/// An event loop with its pairs.
#[derive(Debug)]
pub(crate) struct EventLoop {
    poll: Poll,
    state: LoopState,
    pairs: Slab<ConnectionPair>,
    generation: u32,
    listeners: Listeners,
    admission: Arc<Admission>,
    inbox: MailboxReceiver<LoopEvent>,
    has_more_events: bool,
    ready_pairs: Vec<PairId>,
    metrics: Arc<LoopMetrics>,
    epoch: Instant,
    buffered_at_ms: u64,
    limited: LimitLog,
    running: bool,
    heartbeat: Arc<Heartbeat>,
    /// File descriptors from this number on are not used for clients.
    descriptor_ceiling: RawFd,
}

/// State of the log messages about limits on filter work.
#[derive(Debug, Default)]
struct LimitLog {
    partitions: u64,
    next_ms: u64,
}

impl LimitLog {
    /// Logs that limits were reached, at most once per interval.
    fn note(&mut self, partitions: u64, now_ms: u64) {
        if partitions == self.partitions || now_ms < self.next_ms {
            return;
        }
        let more = partitions - self.partitions;
        (self.partitions, self.next_ms) = (partitions, now_ms + LIMIT_LOG_INTERVAL_MS);
        tracing::warn!(
            partitions = more,
            "limits on filter work reached, partitions rejected, withheld or cut"
        );
    }
}

impl EventLoop {
    /// Creates a loop. It starts with [`Self::run`].
    pub(crate) fn new(options: LoopOptions) -> io::Result<(Self, MailboxSender<LoopEvent>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (sender, inbox) = mailbox(waker, INBOX_MAX);
        let state = LoopState {
            registry: poll.registry().try_clone()?,
            clusters: options.clusters,
            frames: options.limits.frames(),
            filter_buffers: FilterBuffers::new(options.limits.filters()),
            limits: options.limits,
            counters: LoopCounters::default(),
            buffer: vec![0; READ_BYTES],
            segments: Segments::default(),
            pipes: if options.splice {
                PipePool::default()
            } else {
                PipePool::none()
            },
            now_ms: 0,
            next_broker: 0,
            iteration_limits: IterationLimits::share(1),
            requests_until: u64::MAX,
            draining: false,
            sender: sender.clone(),
            resolver: options.resolver,
            memory: options.memory,
            pool: options.pool,
            timers: TimerWheel::new(0),
        };
        let this = Self {
            poll,
            state,
            pairs: Slab::new(),
            generation: 0,
            listeners: Listeners::default(),
            admission: options.admission,
            inbox,
            has_more_events: false,
            ready_pairs: Vec::new(),
            metrics: options.metrics,
            epoch: options.epoch,
            buffered_at_ms: 0,
            limited: LimitLog::default(),
            running: true,
            heartbeat: options.heartbeat,
            descriptor_ceiling: client_ceiling(),
        };
        Ok((this, sender))
    }

    /// Runs until the loop is stopped or drained.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while self.running {
            let timeout = self.timeout();
            if timeout != Some(Duration::ZERO) {
                self.heartbeat.sleep();
            }
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.inbox.awake();
            self.state.now_ms = self.epoch.elapsed().as_millis() as u64;
            self.heartbeat.wake(self.state.now_ms);
            self.state.counters.iterations += 1;
            self.state.filter_buffers.begin_iteration();
            let busy = self.ready_pairs.len() + events.iter().count();
            self.state.iteration_limits = IterationLimits::share(busy);
            for pair in std::mem::take(&mut self.ready_pairs) {
                self.forward(pair.index, Some(pair.generation));
            }
            for event in &events {
                self.on_event(event);
            }
            self.heartbeat.begin(Activity::ACCEPT);
            self.accept();
            self.heartbeat.begin(Activity::POSTED);
            self.take_events();
            self.heartbeat.begin(Activity::TIMERS);
            self.fire_timers();
            self.publish();
            if self.state.draining && self.pairs.is_empty() {
                break;
            }
        }
        self.heartbeat.sleep();
        Ok(())
    }

    fn timeout(&mut self) -> Option<Duration> {
        let busy = !self.ready_pairs.is_empty()
            || self.has_more_events
            || self.listeners.may_have_pending();
        if busy || !self.inbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        let timer = self.state.timers.next_in_ms(self.state.now_ms);
        timer.map(Duration::from_millis)
    }

    fn on_event(&mut self, event: &Event) {
        let token = event.token();
        if token == WAKER || self.listeners.on_readable(token) {
            return;
        }
        let index = token.0 / 2;
        let Some(pair) = self.pairs.get_mut(index) else {
            return;
        };
        let side = match token.0 % 2 {
            0 => Some(&mut pair.down),
            _ => pair.up.side(),
        };
        let Some(side) = side else { return };
        side.readable |= event.is_readable() || event.is_error();
        side.hung_up |= event.is_read_closed() || event.is_error();
        if event.is_writable() {
            side.blocked = false;
        }
        if token.0 % 2 == 0 && event.is_error() {
            // The client reset the connection. Nothing can be delivered, so its work is dropped.
            let reset = io::Error::from(io::ErrorKind::ConnectionReset);
            return self.close(index, &PairCloseReason::client(reset));
        }
        if let Upstream::Connecting(..) = pair.up {
            if token.0 % 2 == 1 {
                if let Err(reason) = self.state.connecting(pair) {
                    self.close(index, &reason);
                    return;
                }
            }
        }
        self.forward(index, None);
    }

    fn forward(&mut self, index: usize, generation: Option<u32>) {
        let Some(pair) = self.pairs.get_mut(index) else {
            return;
        };
        if generation.is_some_and(|generation| generation != pair.id.generation) {
            return;
        }
        let peer = pair.peer.ip();
        self.heartbeat.begin_for(Activity::INPUT, peer);
        match self.state.forward(pair) {
            Ok(false) => {}
            Ok(true) => self.ready_pairs.push(pair.id),
            Err(reason) => self.close(index, &reason),
        }
    }

    fn accept(&mut self) {
        if !self.listeners.may_have_pending() {
            return;
        }
        for _ in 0..ACCEPTS_PER_ITERATION {
            match self.listeners.accept() {
                Ok(accepted) if accepted.socket.as_raw_fd() >= self.descriptor_ceiling => {
                    limited!(
                        warn,
                        "file descriptors reserved",
                        "file descriptors running out, connections stay pending"
                    );
                    return self.accept_later();
                }
                Ok(accepted) => {
                    let address = accepted.peer.ip();
                    if !self.admission.enter(address) {
                        self.state.counters.rejected += 1;
                    } else if let Err(error) = self.set_up(accepted) {
                        limited!(warn, "connection not set up", %error, "connection setup failed");
                        self.state.counters.rejected += 1;
                        self.admission.leave(address);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of file descriptors. Pending connections stay in the kernel's queue.
                    limited!(warn, "connection not accepted", %error, "accept failed, retrying");
                    return self.accept_later();
                }
            }
        }
    }

    /// Pauses accepting. Pending connections stay in the kernel's queue.
    fn accept_later(&mut self) {
        self.state.counters.rejected += 1;
        self.listeners.pause();
        let at_ms = self.state.now_ms + ACCEPT_RETRY_MS;
        self.state.timers.set(at_ms, LoopTimer::Accept);
    }

    fn set_up(&mut self, accepted: AcceptedConnection) -> io::Result<()> {
        let entry = self.pairs.vacant_entry();
        let index = entry.key();
        let mut socket = accepted.socket;
        // Small responses must be sent at once. A socket that does not support the option still
        // works.
        let _ = socket.set_nodelay(true);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.state
            .registry
            .register(&mut socket, Token(index * 2), interest)?;
        let stream = match &self.state.clusters[accepted.cluster].tls {
            None => SocketStream::Plain(socket),
            Some(tls) => SocketStream::tls(socket, tls.begin().map_err(io::Error::other)?),
        };
        self.generation = self.generation.wrapping_add(1);
        let id = PairId {
            index,
            generation: self.generation,
        };
        let now_ms = self.state.now_ms;
        let (cluster, target) = (accepted.cluster, accepted.target);
        let pair = ConnectionPair::new(id, cluster, target, accepted.peer, now_ms, stream);
        let pair = entry.insert(pair);
        self.state.counters.connections += 1;
        self.state.counters.accepted += 1;
        let until_ms = now_ms + self.state.limits.handshake_timeout_ms;
        self.state.arm(pair, until_ms);
        Ok(())
    }

    fn take_events(&mut self) {
        self.has_more_events = false;
        for _ in 0..EVENTS_PER_ITERATION {
            let Some(event) = self.inbox.take() else {
                return;
            };
            self.on_posted(event);
        }
        self.has_more_events = true;
    }

    fn on_posted(&mut self, event: LoopEvent) {
        match event {
            LoopEvent::Listen(..) if self.state.draining => {}
            LoopEvent::Listen(cluster, target, socket) => {
                let opened = self
                    .listeners
                    .open(cluster, target, socket, &self.state.registry);
                if let Err(error) = opened {
                    tracing::error!(%error, ?target, "listening socket not usable");
                }
            }
            LoopEvent::Unlisten(cluster, target) => self.listeners.close(cluster, target),
            LoopEvent::Resolved(id, candidates) => {
                let Some(pair) = self.pairs.get_mut(id.index) else {
                    return;
                };
                if pair.id != id || !matches!(pair.up, Upstream::Resolving(_)) {
                    return;
                }
                if let Err(reason) = self.state.try_next(pair, candidates) {
                    self.close(id.index, &reason);
                }
            }
            LoopEvent::Unresponsive(cluster, broker) => self.close_waiting(cluster, &broker),
            LoopEvent::Filtered(done) => {
                self.state.counters.filters.add(&done.counts);
                let index = done.pair.index;
                let pair = self.pairs.get_mut(index);
                let Some(pair) = pair.filter(|pair| pair.id == done.pair) else {
                    return;
                };
                match self.state.filtered(pair, *done) {
                    Ok(()) => self.forward(index, None),
                    Err(reason) => self.close(index, &reason),
                }
            }
            LoopEvent::List(max, reply) => {
                let now_ms = self.state.now_ms;
                let rows = self.pairs.iter().take(max).map(|(_, pair)| {
                    let cluster = &self.state.clusters[pair.cluster].name;
                    pair.info(cluster, now_ms)
                });
                // The requester may have timed out.
                let _ = reply.try_send(rows.collect());
            }
            LoopEvent::Drain => {
                self.state.draining = true;
                self.listeners.close_all();
                let all: Vec<_> = self.pairs.iter().map(|(index, _)| index).collect();
                for index in all {
                    self.forward(index, None);
                }
            }
            LoopEvent::Stop => self.running = false,
        }
    }

    /// Closes connections that wait for an unresponsive broker. Their clients can use another
    /// broker.
    fn close_waiting(&mut self, cluster: usize, broker: &HostPort) {
        let Some(before_ms) = self.state.now_ms.checked_sub(self.state.limits.response_ms) else {
            return;
        };
        let waiting = self.pairs.iter().filter_map(|(index, pair)| {
            let waits = pair.cluster == cluster && pair.waits_for(broker, before_ms);
            waits.then_some(index)
        });
        for index in waiting.collect::<Vec<_>>() {
            self.close(index, &PairCloseReason::BrokerUnresponsive);
        }
    }

    fn fire_timers(&mut self) {
        let now_ms = self.state.now_ms;
        let mut due = Vec::new();
        self.state.timers.expire(now_ms, |timer| due.push(timer));
        for timer in due {
            match timer {
                LoopTimer::Accept => self.listeners.resume(),
                LoopTimer::Pair(id) => {
                    let pair = self.pairs.get_mut(id.index);
                    let Some(pair) = pair.filter(|pair| pair.id == id) else {
                        continue;
                    };
                    pair.armed_ms = u64::MAX;
                    match self.state.check(pair) {
                        Ok(()) => self.forward(id.index, None),
                        Err(reason) => self.close(id.index, &reason),
                    }
                }
            }
        }
    }

    fn publish(&mut self) {
        let now_ms = self.state.now_ms;
        if now_ms.saturating_sub(self.buffered_at_ms) >= BUFFERED_INTERVAL_MS {
            self.buffered_at_ms = now_ms;
            let buffered: usize = self
                .pairs
                .iter()
                .map(|(_, pair)| pair.buffered_bytes())
                .sum();
            self.state.counters.buffered_bytes = buffered as u64;
        }
        let counts = self.state.filter_buffers.take_counts();
        self.state.counters.filters.add(&counts);
        let limited = self.state.counters.filters.limited;
        self.limited.note(limited, now_ms);
        self.metrics.publish(&self.state.counters);
    }

    fn close(&mut self, index: usize, reason: &PairCloseReason) {
        let mut pair = self.pairs.remove(index);
        self.state.record_close(&pair, reason);
        self.state.drop_upstream(&mut pair);
        if let Some(pipe) = pair.pipe.take() {
            self.state.pipes.put_back(pipe);
        }
        // Dropping the socket also deregisters it, so an error does not matter.
        let _ = self.state.registry.deregister(pair.down.stream.socket());
        if pair.down.stream.wants_write() {
            let _ = pair.down.stream.flush();
        }
        self.state.counters.connections -= 1;
        self.admission.leave(pair.peer.ip());
    }
}

impl LoopState {
    /// Closes a pair whose time is over, or sets its next timer.
    fn check(&mut self, pair: &mut ConnectionPair) -> Result<(), PairCloseReason> {
        let now_ms = self.now_ms;
        if pair.ends_ms.is_some_and(|at_ms| now_ms >= at_ms) {
            return Err(PairCloseReason::Closed);
        }
        let delayed_ms = self.check_delayed(pair)?;
        let mut next_ms = pair.ends_ms.unwrap_or(u64::MAX).min(delayed_ms);
        let mut until = |at_ms: u64, what: &'static str| {
            next_ms = next_ms.min(at_ms);
            if now_ms >= at_ms {
                Err(PairCloseReason::Timeout(what))
            } else {
                Ok(())
            }
        };
        // A partly received first request has other limits.
        let begins = pair.counted == 0 && !pair.requests.is_identified();
        if pair.down.stream.is_handshaking() || begins {
            until(
                pair.since_ms + self.limits.handshake_timeout_ms,
                "handshake timeout",
            )?;
        }
        if self.limits.idle_timeout_ms > 0 {
            until(pair.active_ms + self.limits.idle_timeout_ms, "idle timeout")?;
        }
        match &mut pair.up {
            Upstream::Resolving(at_ms) => until(*at_ms, "name resolution timeout")?,
            Upstream::Open(up, at_ms) if up.stream.is_handshaking() => {
                until(*at_ms, "broker TLS handshake timeout")?;
            }
            Upstream::Connecting(_, rest, at_ms) if now_ms >= *at_ms => {
                let rest = std::mem::take(rest);
                self.try_next(pair, rest)?;
            }
            Upstream::Connecting(_, _, at_ms) => next_ms = next_ms.min(*at_ms),
            Upstream::None | Upstream::Open(..) => {}
        }
        if next_ms < u64::MAX {
            self.arm(pair, next_ms);
        }
        Ok(())
    }

    fn record_close(&mut self, pair: &ConnectionPair, reason: &PairCloseReason) {
        let (client, cluster) = (pair.peer, &self.clusters[pair.cluster].name);
        let counters = &mut self.counters;
        match reason {
            PairCloseReason::Closed | PairCloseReason::Drained => {
                limited!(debug, "connection closed", %client, "connection closed")
            }
            PairCloseReason::Timeout(what) => {
                counters.timeouts += 1;
                let reason = *what;
                limited!(
                    debug,
                    "connection timed out",
                    %client,
                    cluster,
                    reason,
                    "connection closed"
                );
            }
            PairCloseReason::Stream(error) => {
                match error {
                    StreamError::Broker(_) | StreamError::Unexpected { .. } => {
                        counters.broker_errors += 1;
                    }
                    _ => counters.client_errors += 1,
                }
                let error = Truncated(error);
                limited!(warn, "protocol violation", %client, cluster, %error, "connection closed");
            }
            PairCloseReason::NoBroker(error) => {
                counters.connect_failures += 1;
                let node = match pair.target {
                    ListenerTarget::Bootstrap => "any broker".to_owned(),
                    ListenerTarget::Broker(id) => format!("broker {id}"),
                };
                limited!(
                    debug,
                    "broker not reached",
                    %client,
                    cluster,
                    broker = %node,
                    %error,
                    "broker not reachable, connection closed"
                );
            }
            PairCloseReason::BrokerUnresponsive => {
                counters.silent_broker += 1;
                let broker = pair.broker;
                tracing::debug!(
                    %client,
                    cluster,
                    ?broker,
                    "broker not responding, connection closed"
                );
            }
            PairCloseReason::Client(error) | PairCloseReason::Broker(error) => {
                let is_tls = error.kind() == io::ErrorKind::InvalidData;
                counters.tls_failures += u64::from(is_tls);
                limited!(
                    debug,
                    "connection failed",
                    %client,
                    cluster,
                    ?reason,
                    "connection closed"
                );
            }
        }
    }
}
