//! One event loop: poll, mail, timers; what pairs do is in `drive`.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use slab::Slab;
use weir_net::descriptors::client_ceiling;
use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::timer::TimerWheel;
use weir_net::tls::{ClientTls, TlsAcceptor};
use weir_net::watchdog::{Activity, Heartbeat};
use weir_net::{MailboxReceiver, MailboxSender, mailbox};

use super::accept::{AcceptedConnection, Admission, Listeners};
use super::counters::{LoopCounters, LoopMetrics};
use super::forward::{READ_BYTES, TurnLimits};
use super::pair::{Pair, Upstream};
use super::pipe::PipePool;
use super::stream::SocketStream;
use super::{FilterPool, ListenerTarget, LoopEvent, Memory, PairId};
use crate::address_cache::AddressCache;
use crate::broker_registry::BrokerRegistry;
use crate::config::{HostPort, ProxyLimits};
use crate::filter::{FilterBuffers, FilterChain};
use crate::health::ClusterHealth;
use crate::resolve::Resolver;
use crate::versions::SupportedVersions;
use crate::wire::{FrameLimits, Segments, StreamError};

const WAKER: Token = Token(usize::MAX);
/// Connections accepted before anything else gets its turn again.
const ACCEPTS_PER_ITERATION: usize = 64;
/// Mails handled in a turn.
const MAILS_PER_ITERATION: usize = 64;
/// Mails that may wait.
const MAILS_MAX: usize = 1024;
/// Pause before accepting again after the descriptors ran out, in milliseconds.
const ACCEPT_RETRY_MS: u64 = 100;
/// How old the sum of held bytes may be, in milliseconds.
const HELD_PERIOD_MS: u64 = 1_000;

/// How often the log may say that limits on filter work were reached, in milliseconds.
const LIMIT_LOG_MS: u64 = 10_000;

/// What a loop needs of a virtual cluster.
#[derive(Debug)]
pub(crate) struct LoopCluster {
    pub(crate) name: String,
    pub(crate) offer: Arc<SupportedVersions>,
    pub(crate) filters: Arc<FilterChain>,
    pub(crate) upstream: Vec<HostPort>,
    pub(crate) directory: Arc<BrokerRegistry>,
    pub(crate) health: Arc<ClusterHealth>,
    pub(crate) places: AddressCache,
    pub(crate) tls: Option<Arc<TlsAcceptor>>,
    pub(crate) upstream_tls: Option<ClientTls>,
}

/// What a loop is made of.
#[derive(Debug)]
pub(crate) struct LoopOptions {
    pub(crate) clusters: Vec<LoopCluster>,
    pub(crate) limits: ProxyLimits,
    /// Pass large bodies inside the kernel.
    pub(crate) splice: bool,
    pub(crate) admission: Arc<Admission>,
    pub(crate) resolver: Resolver,
    pub(crate) memory: Arc<Memory>,
    /// Where filters work; `None` if there are none.
    pub(crate) pool: Option<Arc<FilterPool>>,
    pub(crate) metrics: Arc<LoopMetrics>,
    /// Where the loop marks its progress; its epoch is the loop's.
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) epoch: Instant,
}

/// Why a pair ends.
#[derive(Debug)]
pub(super) enum PairCloseReason {
    /// One side closed, and the other was told.
    Gone,
    /// The proxy shuts down and nothing was under way.
    Drained,
    /// Too long without a byte, or without getting on.
    Timeout(&'static str),
    /// What came could not be.
    Stream(StreamError),
    /// No broker could be reached.
    NoBroker(String),
    /// The broker has not answered for long, neither the client nor the proxy's probe.
    Silent,
    /// A socket failed, or TLS.
    Client(io::Error),
    /// The same on the broker's side.
    Broker(io::Error),
}

impl PairCloseReason {
    pub(super) fn client(error: io::Error) -> Self {
        Self::Client(error)
    }

    pub(super) fn broker(error: io::Error) -> Self {
        Self::Broker(error)
    }
}

impl From<StreamError> for PairCloseReason {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

/// What timers are for.
#[derive(Debug, Clone, Copy)]
enum LoopTimer {
    Pair(PairId),
    Accept,
}

/// All of a loop but its pairs.
#[derive(Debug)]
pub(super) struct LoopState {
    pub(super) registry: Registry,
    pub(super) clusters: Vec<LoopCluster>,
    pub(super) limits: ProxyLimits,
    pub(super) frames: FrameLimits,
    pub(super) counters: LoopCounters,
    pub(super) buffer: Vec<u8>,
    pub(super) segments: Segments,
    pub(super) workspace: FilterBuffers,
    pub(super) tubes: PipePool,
    pub(super) now_ms: u64,
    /// Counts connections, to take configured brokers in turn.
    pub(super) turn: usize,
    /// What each pair may read in this iteration.
    pub(super) turn_limits: TurnLimits,
    /// Where the pair whose turn it is stops, as a count of its requests.
    pub(super) requests_until: u64,
    pub(super) draining: bool,
    pub(super) post: MailboxSender<LoopEvent>,
    pub(super) resolver: Resolver,
    pub(super) memory: Arc<Memory>,
    pub(super) pool: Option<Arc<FilterPool>>,
    timers: TimerWheel<LoopTimer>,
}

impl LoopState {
    /// Has a pair looked at by then.
    pub(super) fn arm(&mut self, pair: &mut Pair, at_ms: u64) {
        if at_ms < pair.armed_ms {
            pair.armed_ms = at_ms;
            self.timers.set(at_ms, LoopTimer::Pair(pair.id));
        }
    }
}

/// An event loop with its pairs.
#[derive(Debug)]
pub(crate) struct EventLoop {
    poll: Poll,
    core: LoopState,
    pairs: Slab<Pair>,
    generation: u32,
    doors: Listeners,
    admission: Arc<Admission>,
    mail: MailboxReceiver<LoopEvent>,
    mail_again: bool,
    again: Vec<PairId>,
    metrics: Arc<LoopMetrics>,
    epoch: Instant,
    held_at_ms: u64,
    limited: LimitLog,
    running: bool,
    heartbeat: Arc<Heartbeat>,
    /// Descriptor numbers from here on are kept back from clients.
    descriptor_ceiling: RawFd,
}

/// What the log has said of limits on filter work.
#[derive(Debug, Default)]
struct LimitLog {
    partitions: u64,
    next_ms: u64,
}

impl LimitLog {
    /// Logs that limits were reached, at most once per period.
    fn note(&mut self, partitions: u64, now_ms: u64) {
        if partitions == self.partitions || now_ms < self.next_ms {
            return;
        }
        let more = partitions - self.partitions;
        (self.partitions, self.next_ms) = (partitions, now_ms + LIMIT_LOG_MS);
        tracing::warn!(
            partitions = more,
            "limits on filter work were reached, partitions were refused, withheld or cut"
        );
    }
}

impl EventLoop {
    /// Sets up a loop; nothing runs until [`Self::run`].
    pub(crate) fn new(options: LoopOptions) -> io::Result<(Self, MailboxSender<LoopEvent>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (post, mail) = mailbox(waker, MAILS_MAX);
        let core = LoopState {
            registry: poll.registry().try_clone()?,
            clusters: options.clusters,
            frames: options.limits.frames(),
            workspace: FilterBuffers::new(options.limits.filters()),
            limits: options.limits,
            counters: LoopCounters::default(),
            buffer: vec![0; READ_BYTES],
            segments: Segments::default(),
            tubes: if options.splice {
                PipePool::default()
            } else {
                PipePool::none()
            },
            now_ms: 0,
            turn: 0,
            turn_limits: TurnLimits::share(1),
            requests_until: u64::MAX,
            draining: false,
            post: post.clone(),
            resolver: options.resolver,
            memory: options.memory,
            pool: options.pool,
            timers: TimerWheel::new(0),
        };
        let this = Self {
            poll,
            core,
            pairs: Slab::new(),
            generation: 0,
            doors: Listeners::default(),
            admission: options.admission,
            mail,
            mail_again: false,
            again: Vec::new(),
            metrics: options.metrics,
            epoch: options.epoch,
            held_at_ms: 0,
            limited: LimitLog::default(),
            running: true,
            heartbeat: options.heartbeat,
            descriptor_ceiling: client_ceiling(),
        };
        Ok((this, post))
    }

    /// Runs until told to stop, or until drained.
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
            self.mail.awake();
            self.core.now_ms = self.epoch.elapsed().as_millis() as u64;
            self.heartbeat.wake(self.core.now_ms);
            self.core.counters.turns += 1;
            self.core.workspace.begin_turn();
            let busy = self.again.len() + events.iter().count();
            self.core.turn_limits = TurnLimits::share(busy);
            for pair in std::mem::take(&mut self.again) {
                self.drive(pair.index, Some(pair.generation));
            }
            for event in &events {
                self.on_event(event);
            }
            self.heartbeat.begin(Activity::ACCEPT);
            self.accept();
            self.heartbeat.begin(Activity::POSTED);
            self.take_mail();
            self.heartbeat.begin(Activity::TIMERS);
            self.fire_timers();
            self.publish();
            if self.core.draining && self.pairs.is_empty() {
                break;
            }
        }
        self.heartbeat.sleep();
        Ok(())
    }

    fn timeout(&mut self) -> Option<Duration> {
        let busy = !self.again.is_empty() || self.mail_again || self.doors.some_may_wait();
        if busy || !self.mail.may_sleep() {
            return Some(Duration::ZERO);
        }
        let timer = self.core.timers.next_in_ms(self.core.now_ms);
        timer.map(Duration::from_millis)
    }

    fn on_event(&mut self, event: &Event) {
        let token = event.token();
        if token == WAKER || self.doors.on_readable(token) {
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
            // The client has reset the connection: nothing can be delivered, so drop its work.
            let reset = io::Error::from(io::ErrorKind::ConnectionReset);
            return self.close(index, &PairCloseReason::client(reset));
        }
        if let Upstream::Connecting(..) = pair.up {
            if token.0 % 2 == 1 {
                if let Err(reason) = self.core.connecting(pair) {
                    self.close(index, &reason);
                    return;
                }
            }
        }
        self.drive(index, None);
    }

    fn drive(&mut self, index: usize, generation: Option<u32>) {
        let Some(pair) = self.pairs.get_mut(index) else {
            return;
        };
        if generation.is_some_and(|generation| generation != pair.id.generation) {
            return;
        }
        let peer = pair.peer.ip();
        self.heartbeat.begin_for(Activity::INPUT, peer);
        match self.core.drive(pair) {
            Ok(false) => {}
            Ok(true) => self.again.push(pair.id),
            Err(reason) => self.close(index, &reason),
        }
    }

    fn accept(&mut self) {
        if !self.doors.some_may_wait() {
            return;
        }
        for _ in 0..ACCEPTS_PER_ITERATION {
            match self.doors.next() {
                Ok(arrival) if arrival.socket.as_raw_fd() >= self.descriptor_ceiling => {
                    limited!(
                        warn,
                        "descriptors kept back",
                        "descriptors run out: connections wait"
                    );
                    return self.accept_later();
                }
                Ok(arrival) => {
                    let address = arrival.peer.ip();
                    if !self.admission.enter(address) {
                        self.core.counters.refused += 1;
                    } else if let Err(error) = self.take_in(arrival) {
                        limited!(warn, "connection not taken in", %error, "cannot take in a connection");
                        self.core.counters.refused += 1;
                        self.admission.leave(address);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors: those who wait stay in the kernel's queue.
                    limited!(warn, "connection not accepted", %error, "cannot accept a connection, trying again");
                    return self.accept_later();
                }
            }
        }
    }

    /// Leaves those who wait in the kernel's queue for a moment.
    fn accept_later(&mut self) {
        self.core.counters.refused += 1;
        self.doors.pause();
        let at_ms = self.core.now_ms + ACCEPT_RETRY_MS;
        self.core.timers.set(at_ms, LoopTimer::Accept);
    }

    fn take_in(&mut self, arrival: AcceptedConnection) -> io::Result<()> {
        let place = self.pairs.vacant_entry();
        let index = place.key();
        let mut socket = arrival.socket;
        // Small answers must leave at once; a socket that cannot say so still works.
        let _ = socket.set_nodelay(true);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.core
            .registry
            .register(&mut socket, Token(index * 2), interest)?;
        let stream = match &self.core.clusters[arrival.cluster].tls {
            None => SocketStream::Plain(socket),
            Some(tls) => SocketStream::tls(socket, tls.begin().map_err(io::Error::other)?),
        };
        self.generation = self.generation.wrapping_add(1);
        let id = PairId {
            index,
            generation: self.generation,
        };
        let now_ms = self.core.now_ms;
        let (cluster, target) = (arrival.cluster, arrival.target);
        let pair = Pair::new(id, cluster, target, arrival.peer, now_ms, stream);
        let pair = place.insert(pair);
        self.core.counters.connections += 1;
        self.core.counters.accepted += 1;
        let until_ms = now_ms + self.core.limits.handshake_ms;
        self.core.arm(pair, until_ms);
        Ok(())
    }

    fn take_mail(&mut self) {
        self.mail_again = false;
        for _ in 0..MAILS_PER_ITERATION {
            let Some(mail) = self.mail.take() else { return };
            self.on_mail(mail);
        }
        self.mail_again = true;
    }

    fn on_mail(&mut self, mail: LoopEvent) {
        match mail {
            LoopEvent::Listen(..) if self.core.draining => {}
            LoopEvent::Listen(cluster, target, socket) => {
                let opened = self
                    .doors
                    .open(cluster, target, socket, &self.core.registry);
                if let Err(error) = opened {
                    tracing::error!(%error, ?target, "cannot serve a listening socket");
                }
            }
            LoopEvent::Unlisten(cluster, target) => self.doors.close(cluster, target),
            LoopEvent::Resolved(id, candidates) => {
                let Some(pair) = self.pairs.get_mut(id.index) else {
                    return;
                };
                if pair.id != id || !matches!(pair.up, Upstream::Resolving(_)) {
                    return;
                }
                if let Err(reason) = self.core.try_next(pair, candidates) {
                    self.close(id.index, &reason);
                }
            }
            LoopEvent::Silent(cluster, broker) => self.close_waiting(cluster, &broker),
            LoopEvent::Filtered(done) => {
                self.core.counters.filters.add(&done.tally);
                let index = done.pair.index;
                let pair = self.pairs.get_mut(index);
                let Some(pair) = pair.filter(|pair| pair.id == done.pair) else {
                    return;
                };
                match self.core.filtered(pair, *done) {
                    Ok(()) => self.drive(index, None),
                    Err(reason) => self.close(index, &reason),
                }
            }
            LoopEvent::List(most, reply) => {
                let now_ms = self.core.now_ms;
                let rows = self.pairs.iter().take(most).map(|(_, pair)| {
                    let cluster = &self.core.clusters[pair.cluster].name;
                    pair.row(cluster, now_ms)
                });
                // Whoever asked may have gone.
                let _ = reply.try_send(rows.collect());
            }
            LoopEvent::Drain => {
                self.core.draining = true;
                self.doors.close_all();
                let all: Vec<_> = self.pairs.iter().map(|(index, _)| index).collect();
                for index in all {
                    self.drive(index, None);
                }
            }
            LoopEvent::Stop => self.running = false,
        }
    }

    /// Closes connections that wait for a broker that does not answer: their clients may find
    /// another one.
    fn close_waiting(&mut self, cluster: usize, broker: &HostPort) {
        let Some(before_ms) = self.core.now_ms.checked_sub(self.core.limits.response_ms) else {
            return;
        };
        let waiting = self.pairs.iter().filter_map(|(index, pair)| {
            let waits = pair.cluster == cluster && pair.waits_for(broker, before_ms);
            waits.then_some(index)
        });
        for index in waiting.collect::<Vec<_>>() {
            self.close(index, &PairCloseReason::Silent);
        }
    }

    fn fire_timers(&mut self) {
        let now_ms = self.core.now_ms;
        let mut due = Vec::new();
        self.core.timers.expire(now_ms, |timer| due.push(timer));
        for timer in due {
            match timer {
                LoopTimer::Accept => self.doors.try_all(),
                LoopTimer::Pair(id) => {
                    let pair = self.pairs.get_mut(id.index);
                    let Some(pair) = pair.filter(|pair| pair.id == id) else {
                        continue;
                    };
                    pair.armed_ms = u64::MAX;
                    match self.core.check(pair) {
                        Ok(()) => self.drive(id.index, None),
                        Err(reason) => self.close(id.index, &reason),
                    }
                }
            }
        }
    }

    fn publish(&mut self) {
        let now_ms = self.core.now_ms;
        if now_ms.saturating_sub(self.held_at_ms) >= HELD_PERIOD_MS {
            self.held_at_ms = now_ms;
            let held: usize = self.pairs.iter().map(|(_, pair)| pair.held_bytes()).sum();
            self.core.counters.held_bytes = held as u64;
        }
        let tally = self.core.workspace.take_tally();
        self.core.counters.filters.add(&tally);
        let limited = self.core.counters.filters.limited;
        self.limited.note(limited, now_ms);
        self.metrics.publish(&self.core.counters);
    }

    fn close(&mut self, index: usize, reason: &PairCloseReason) {
        let mut pair = self.pairs.remove(index);
        self.core.note_end(&pair, reason);
        self.core.drop_up(&mut pair);
        if let Some(tube) = pair.tube.take() {
            self.core.tubes.put_back(tube);
        }
        // Dropping the socket would do as well.
        let _ = self.core.registry.deregister(pair.down.stream.socket());
        if pair.down.stream.wants_write() {
            let _ = pair.down.stream.flush();
        }
        self.core.counters.connections -= 1;
        self.admission.leave(pair.peer.ip());
    }
}

impl LoopState {
    /// Ends a pair whose time is over, or looks again later.
    fn check(&mut self, pair: &mut Pair) -> Result<(), PairCloseReason> {
        let now_ms = self.now_ms;
        if pair.ends_ms.is_some_and(|at_ms| now_ms >= at_ms) {
            return Err(PairCloseReason::Gone);
        }
        let held_ms = self.check_held(pair)?;
        let mut next_ms = pair.ends_ms.unwrap_or(u64::MAX).min(held_ms);
        let mut until = |at_ms: u64, what: &'static str| {
            next_ms = next_ms.min(at_ms);
            if now_ms >= at_ms {
                Err(PairCloseReason::Timeout(what))
            } else {
                Ok(())
            }
        };
        // What has come of a first request has limits of its own.
        let begins = pair.counted == 0 && !pair.requests.is_identified();
        if pair.down.stream.is_handshaking() || begins {
            until(
                pair.since_ms + self.limits.handshake_ms,
                "no request in time",
            )?;
        }
        if self.limits.idle_ms > 0 {
            until(pair.active_ms + self.limits.idle_ms, "idle")?;
        }
        match &mut pair.up {
            Upstream::Resolving(at_ms) => until(*at_ms, "a name is not found in time")?,
            Upstream::Open(up, at_ms) if up.stream.is_handshaking() => {
                until(*at_ms, "no TLS with the broker in time")?;
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

    fn note_end(&mut self, pair: &Pair, reason: &PairCloseReason) {
        let (client, cluster) = (pair.peer, &self.clusters[pair.cluster].name);
        let counters = &mut self.counters;
        match reason {
            PairCloseReason::Gone | PairCloseReason::Drained => {
                limited!(debug, "connection closed", %client, "closed")
            }
            PairCloseReason::Timeout(what) => {
                counters.timeouts += 1;
                limited!(debug, "connection timed out", %client, cluster, "closed: {what}");
            }
            PairCloseReason::Stream(error) => {
                match error {
                    StreamError::Broker(_) | StreamError::Unasked { .. } => {
                        counters.broker_errors += 1;
                    }
                    _ => counters.client_errors += 1,
                }
                let error = Truncated(error);
                limited!(warn, "connection broke a rule", %client, cluster, "closed: {error}");
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
                    "closed: {node} is not reached: {error}"
                );
            }
            PairCloseReason::Silent => {
                counters.silent_broker += 1;
                let broker = pair.broker;
                tracing::debug!(%client, cluster, ?broker, "closed: broker does not answer");
            }
            PairCloseReason::Client(error) | PairCloseReason::Broker(error) => {
                let is_tls = error.kind() == io::ErrorKind::InvalidData;
                counters.tls_failures += u64::from(is_tls);
                limited!(debug, "connection failed", %client, cluster, "closed: {reason:?}");
            }
        }
    }
}
