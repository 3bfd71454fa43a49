//! The proxy's handler of an event loop: events of pairs and of other threads, and timers.
//! `forward` moves the bytes of a pair.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::Events;
use mio::event::Event;
use mio::net::TcpStream;
use weir_net::descriptors::client_limit;
use weir_net::event_loop::{Connections, EventLoop, LoopHandler};
use weir_net::log::Truncated;
use weir_net::stream::{SocketStream, TlsBuffers};
use weir_net::watchdog::{Activity, Heartbeat};
use weir_net::{MailboxSender, limited};

use super::admission::Admitted;
use super::arrival;
use super::broker_session::BrokerSession;
use super::events::{ListenerKey, ListenerTarget, LoopEvent, LoopTimer, PairId};
use super::generation::Generation;
use super::iteration::{IterationLimits, READ_BYTES};
use super::loop_state::{LoopShared, LoopState, PairCloseReason, ProxyCore};
use super::pair::{ConnectionPair, Upstream};
use super::pipe::PipePool;
use super::proxy_loop::ProxyLoop;
use crate::address_cache::AddressCache;
use crate::cluster_id::ClusterId;
use crate::config::HostPort;
use crate::counters::{LoopCounters, LoopMetrics};
use crate::login::LoginGate;
use crate::virtual_cluster::VirtualCluster;
use crate::wire::{Segments, StreamError};
use weir_filters::{FilterBuffers, FilterCounts};
use weir_rules::audit::{AuditDetails, AuditKind};

const INBOX_MAX: usize = 1024;
/// Interval between updates of the buffered-bytes gauge, in milliseconds.
const BUFFERED_INTERVAL_MS: u64 = 1_000;

pub(crate) fn open_loop(
    shared: Arc<LoopShared>,
    generation: Arc<Generation>,
    metrics: Arc<LoopMetrics>,
    heartbeat: Arc<Heartbeat>,
) -> io::Result<(EventLoop<ProxyLoop>, MailboxSender<LoopEvent>)> {
    EventLoop::open(heartbeat, INBOX_MAX, client_limit(), |core, sender| {
        let state = LoopState {
            core,
            tls: TlsBuffers::default(),
            addresses: generation
                .clusters
                .iter()
                .map(|one| address_cache(one))
                .collect(),
            filter_buffers: FilterBuffers::new(generation.limits.filters()),
            generation,
            counters: LoopCounters::default(),
            filter_counts: FilterCounts::default(),
            buffer: vec![0; READ_BYTES],
            segments: Segments::default(),
            pipes: match shared.splice {
                true => PipePool::default(),
                false => PipePool::none(),
            },
            next_broker: 0,
            iteration_limits: IterationLimits::share(1),
            requests_until: u64::MAX,
            draining: false,
            sender: sender.clone(),
            shared,
        };
        Ok(ProxyLoop {
            state,
            pairs: Connections::default(),
            arrivals: Connections::default(),
            ready_pairs: Vec::new(),
            metrics,
            buffered_at_ms: 0,
            limited: 0,
        })
    })
}

impl LoopHandler for ProxyLoop {
    type Posted = LoopEvent;
    type Timer = LoopTimer;
    type Listener = ListenerKey;
    const ACCEPTS: usize = 64;
    const POSTED: usize = 64;

    fn core(&mut self) -> &mut ProxyCore {
        &mut self.state.core
    }

    fn wait_max(&mut self) -> Option<Duration> {
        (!self.ready_pairs.is_empty()).then_some(Duration::ZERO)
    }

    fn begin(&mut self, events: &Events) {
        self.state.counters.iterations += 1;
        self.state.filter_buffers.begin_iteration();
        let busy = self.ready_pairs.len() + events.iter().count();
        self.state.iteration_limits = IterationLimits::share(busy);
        for id in std::mem::take(&mut self.ready_pairs) {
            self.forward(id);
        }
    }

    fn on_event(&mut self, token: usize, event: &Event) {
        if let Some(position) = arrival::position(token) {
            return self.on_arrival_event(position, event);
        }
        let Some((id, pair)) = self.pairs.at(token / 2) else {
            return;
        };
        let is_client = token % 2 == 0;
        let side = match is_client {
            true => Some(&mut pair.downstream),
            false => pair.upstream.side(),
        };
        let Some(side) = side else { return };
        side.readable |= event.is_readable() || event.is_error();
        side.hung_up |= event.is_read_closed() || event.is_error();
        if event.is_writable() {
            side.blocked = false;
        }
        if is_client && event.is_error() {
            // The client reset the connection. Nothing can be delivered, so its work is dropped.
            let reset = io::Error::from(io::ErrorKind::ConnectionReset);
            return self.close(id, &PairCloseReason::Client(reset));
        }
        if !is_client && matches!(pair.upstream, Upstream::Connecting(..)) {
            if let Err(reason) = self.state.connecting(pair) {
                return self.close(id, &reason);
            }
        }
        self.forward(id);
    }

    fn on_accept(&mut self, socket: TcpStream, peer: SocketAddr, listener: Self::Listener) {
        let counters = match self.enter(socket, peer, listener) {
            Some(()) => [1, 0],
            None => [0, 1],
        };
        let [accepted, rejected] = counters;
        self.state.counters.connections += accepted;
        self.state.counters.accepted += accepted;
        self.state.counters.rejected += rejected;
    }

    fn on_accept_paused(&mut self) {
        self.state.counters.rejected += 1;
    }

    fn on_timer(&mut self, timer: LoopTimer) {
        let id = match timer {
            LoopTimer::Pair(id) => id,
            LoopTimer::Arrival(id) => return self.on_arrival_timer(id),
        };
        let Some(pair) = self.pairs.get_mut(id) else {
            return;
        };
        pair.armed_ms = u64::MAX;
        match self.state.check(pair) {
            Ok(()) => self.forward(id),
            Err(reason) => self.close(id, &reason),
        }
    }

    fn end(&mut self) {
        self.publish();
        if self.state.draining && self.pairs.is_empty() && self.arrivals.is_empty() {
            self.state.core.stop();
        }
    }

    fn on_posted(&mut self, event: LoopEvent) {
        match event {
            LoopEvent::Listen(..) if self.state.draining => {}
            LoopEvent::Listen(listener, socket) => {
                if let Err(error) = self.state.core.listen(socket, listener) {
                    tracing::error!(%error, ?listener, "listening socket not usable");
                }
            }
            LoopEvent::Unlisten(closed) => {
                self.state.core.listeners.retain(|one| *one != closed);
            }
            LoopEvent::CopyListeners(reply) => {
                // The requester may have timed out.
                let _ = reply.try_send(self.state.core.listeners.copies());
            }
            LoopEvent::Resolved(id, candidates) => {
                let pair = self.pairs.get_mut(id);
                let waits =
                    |pair: &&mut ConnectionPair| matches!(pair.upstream, Upstream::Resolving(_));
                let Some(pair) = pair.filter(waits) else {
                    return;
                };
                if let Err(reason) = self.state.try_next(pair, candidates) {
                    self.close(id, &reason);
                }
            }
            LoopEvent::Unresponsive(cluster, broker) => self.close_waiting(cluster, &broker),
            LoopEvent::Reload(reply) => {
                let ended = self.reload(self.state.shared.current.get());
                // The requester may have timed out.
                let _ = reply.try_send(ended);
            }
            LoopEvent::Preview(reply) => {
                let candidate = self.state.shared.current.candidate();
                let counts = candidate.map(|next| self.preview(&next));
                // The requester may have timed out.
                let _ = reply.try_send(counts.unwrap_or_default());
            }
            LoopEvent::Filtered(done) => {
                self.state.filter_counts += done.counts;
                let id = done.pair;
                let Some(pair) = self.pairs.get_mut(id) else {
                    return;
                };
                match self.state.filtered(pair, *done) {
                    Ok(()) => self.forward(id),
                    Err(reason) => self.close(id, &reason),
                }
            }
            LoopEvent::LoginChecked(id, check, outcome) => {
                let Some(pair) = self.pairs.get_mut(id) else {
                    return;
                };
                match self.state.login_checked(pair, check, outcome) {
                    Ok(()) => self.forward(id),
                    Err(reason) => self.close(id, &reason),
                }
            }
            LoopEvent::BrokerLogin(id, outcome) => {
                let Some(pair) = self.pairs.get_mut(id) else {
                    return;
                };
                match self.state.broker_login_stepped(pair, outcome) {
                    Ok(()) => self.forward(id),
                    Err(reason) => self.close(id, &reason),
                }
            }
            LoopEvent::List(max, reply) => {
                let now_ms = self.state.now_ms();
                let pairs = self.pairs.iter().take(max);
                let rows = pairs.map(|(_, pair)| pair.info(now_ms));
                // The requester may have timed out.
                let _ = reply.try_send(rows.collect());
            }
            LoopEvent::Drain => self.drain(),
            LoopEvent::Stop => self.state.core.stop(),
        }
    }
}

impl ProxyLoop {
    /// Begins a connection. Returns `None` if it is rejected.
    fn enter(&mut self, socket: TcpStream, peer: SocketAddr, listener: ListenerKey) -> Option<()> {
        let needs_header = self.state.generation.needs_header(listener, peer.ip())?;
        let admission = &self.state.shared.admission;
        let admitted = match needs_header {
            true => admission.enter_unidentified()?,
            false => admission.enter(peer.ip())?,
        };
        let begun = match listener {
            ListenerKey::Target(cluster, target) if !needs_header => {
                self.set_up(socket, (peer, admitted), (cluster, target))
            }
            _ => self.begin_arrival(socket, (peer, admitted), (listener, needs_header)),
        };
        if let Err(error) = begun {
            limited!(warn, "connection not set up", %error, "connection setup failed");
            self.state.shared.admission.leave(peer.ip(), admitted);
            return None;
        }
        Some(())
    }

    pub(super) fn forward(&mut self, id: PairId) {
        let Some(pair) = self.pairs.get_mut(id) else {
            return;
        };
        let heartbeat = &self.state.core.heartbeat;
        heartbeat.begin_for(Activity::INPUT, pair.peer.ip());
        let outcome = self.state.forward(pair);
        pair.count_traffic();
        match outcome {
            Ok(false) => {}
            Ok(true) => self.ready_pairs.push(id),
            Err(reason) => self.close(id, &reason),
        }
    }

    fn set_up(
        &mut self,
        mut socket: TcpStream,
        (peer, admitted): (SocketAddr, Admitted),
        (cluster, target): (ClusterId, ListenerTarget),
    ) -> io::Result<()> {
        let Some(cluster) = self.state.generation.cluster(cluster).map(Arc::clone) else {
            return Err(io::Error::other("its cluster was removed"));
        };
        let id = self.pairs.next_id();
        self.state.core.register(&mut socket, id.index() * 2)?;
        let stream = SocketStream::accepted(socket, cluster.config.tls.as_deref())?;
        let now_ms = self.state.now_ms();
        let pair = ConnectionPair::new(id, cluster, target, peer, now_ms, (stream, admitted));
        self.open(pair);
        Ok(())
    }

    /// Adds a pair, whose id is the next one.
    pub(super) fn open(&mut self, mut pair: ConnectionPair) {
        pair.cluster
            .apis
            .connections
            .count_opened(pair.target.node_id());
        pair.in_flight
            .set_counters(pair.cluster.apis.of_this_thread());
        let config = &pair.cluster.config;
        pair.login = config.logins.as_ref().map(|logins| {
            let brokers = config.broker_identity.clone();
            let gate = LoginGate::new(Arc::clone(logins), brokers, &config.name, pair.peer);
            Box::new(gate.with_audit(pair.cluster.audit.get().cloned()))
        });
        let identity = config.broker_identity.as_ref();
        pair.broker_session = identity.map(|one| Box::new(BrokerSession::new(one)));
        if let Some(audit) = pair.cluster.audit.get() {
            let origin = pair.origin.as_deref();
            let name = origin.and_then(|origin| origin.header.authority.as_deref());
            let details = AuditDetails {
                peer_address: origin.and_then(|origin| origin.via),
                server_name: name.map(Into::into),
                ..AuditDetails::default()
            };
            audit.record(AuditKind::Connect, pair.peer, None, details);
            pair.in_flight.note_writes();
        }
        let since_ms = pair.since_ms;
        let until_ms = since_ms + self.state.generation.limits.handshake_timeout_ms;
        let login_ms = pair
            .login
            .as_ref()
            .and_then(|gate| gate.deadline_ms(since_ms));
        let until_ms = login_ms.map_or(until_ms, |login_ms| until_ms.min(login_ms));
        self.state.arm(&mut pair, until_ms);
        if self.state.draining {
            let new_until_ms = pair.new_until_ms();
            self.state.arm(&mut pair, new_until_ms);
        }
        self.pairs.insert(pair);
    }

    /// Closes connections that wait for an unresponsive broker. Their clients can use another
    /// broker.
    fn close_waiting(&mut self, cluster: ClusterId, broker: &HostPort) {
        let response_ms = self.state.generation.limits.response_ms;
        let Some(before_ms) = self.state.now_ms().checked_sub(response_ms) else {
            return;
        };
        let waiting = self.pairs.iter().filter_map(|(id, pair)| {
            let waits = pair.cluster.id == cluster && pair.waits_for(broker, before_ms);
            waits.then_some(id)
        });
        for id in waiting.collect::<Vec<_>>() {
            self.close(id, &PairCloseReason::BrokerUnresponsive);
        }
    }

    fn publish(&mut self) {
        let now_ms = self.state.now_ms();
        if now_ms.saturating_sub(self.buffered_at_ms) >= BUFFERED_INTERVAL_MS {
            self.buffered_at_ms = now_ms;
            let buffered = self.pairs.iter().map(|(_, pair)| pair.buffered_bytes());
            self.state.counters.buffered_bytes = buffered.sum::<usize>() as u64;
        }
        self.metrics.publish(&self.state.counters);
        if self.state.generation.pool.is_some() {
            self.publish_filters();
        }
    }

    fn publish_filters(&mut self) {
        self.state.filter_counts += self.state.filter_buffers.take_counts();
        let limited = self.state.filter_counts.limited;
        let partitions = limited - std::mem::replace(&mut self.limited, limited);
        if partitions > 0 {
            let text = "limits on filter work reached, partitions rejected, withheld or cut";
            limited!(warn, "filter work limited", partitions, "{text}");
        }
        self.metrics.publish_filters(&self.state.filter_counts);
    }

    fn close(&mut self, id: PairId, reason: &PairCloseReason) {
        let Some(mut pair) = self.pairs.remove(id) else {
            return;
        };
        self.state.record_close(&pair, reason);
        let connections = &pair.cluster.apis.connections;
        connections.count_closed(pair.target.node_id(), reason.cause(pair.leaving));
        self.state.drop_upstream(&mut pair);
        if let Some(pipe) = pair.pipe.take() {
            self.state.pipes.put_back(pipe);
        }
        self.state.core.deregister(pair.downstream.stream.socket());
        self.state.counters.connections -= 1;
        self.state
            .shared
            .admission
            .leave(pair.peer.ip(), pair.admitted);
    }
}

pub(super) fn address_cache(cluster: &VirtualCluster) -> AddressCache {
    AddressCache::new(Arc::clone(&cluster.broker_registry))
}

impl LoopState {
    /// Closes a pair whose time is over, or sets its next timer.
    fn check(&mut self, pair: &mut ConnectionPair) -> Result<(), PairCloseReason> {
        let now_ms = self.now_ms();
        if pair.ends_ms.is_some_and(|at_ms| now_ms >= at_ms) {
            return Err(PairCloseReason::Closed);
        }
        if pair.leaves_ms.is_some_and(|at_ms| now_ms >= at_ms) {
            self.leave(pair);
        }
        let delayed_ms = self.check_delayed(pair)?.min(self.check_login(pair)?);
        let delayed_ms = delayed_ms.min(self.check_broker_login(pair)?);
        let ends_ms = pair.ends_ms.unwrap_or(u64::MAX);
        let ends_ms = ends_ms.min(pair.leaves_ms.unwrap_or(u64::MAX));
        let mut next_ms = ends_ms.min(delayed_ms);
        let limits = &self.generation.limits;
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
        if pair.downstream.stream.is_handshaking() || begins {
            let at_ms = pair.since_ms + limits.handshake_timeout_ms;
            until(at_ms, "handshake timeout")?;
        }
        if limits.idle_timeout_ms > 0 {
            until(pair.active_ms + limits.idle_timeout_ms, "idle timeout")?;
        }
        match &mut pair.upstream {
            Upstream::Resolving(at_ms) => until(*at_ms, "name resolution timeout")?,
            Upstream::Open(upstream, at_ms) if upstream.stream.is_handshaking() => {
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
        let (client, cluster) = (pair.peer, &pair.cluster.config.name);
        let counters = &mut self.counters;
        match reason {
            PairCloseReason::Closed | PairCloseReason::Drained => {
                limited!(debug, "connection closed", %client, "connection closed");
            }
            PairCloseReason::Timeout(reason) => {
                counters.timeouts += 1;
                limited!(
                    debug, "connection timed out", %client, cluster, reason, "connection closed"
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
                let broker = match pair.target {
                    ListenerTarget::Bootstrap => "any broker".to_owned(),
                    ListenerTarget::Broker(id) => format!("broker {id}"),
                };
                let text = "broker not reachable, connection closed";
                limited!(debug, "broker not reached", %client, cluster, broker, %error, "{text}");
            }
            PairCloseReason::BrokerUnresponsive => {
                counters.silent_broker += 1;
                let (broker, text) = (pair.broker, "broker not responding, connection closed");
                tracing::debug!(%client, cluster, ?broker, "{text}");
            }
            PairCloseReason::Client(error) | PairCloseReason::Broker(error) => {
                let is_tls = error.kind() == io::ErrorKind::InvalidData;
                counters.tls_failures += u64::from(is_tls);
                limited!(
                    debug, "connection failed", %client, cluster, ?reason, "connection closed"
                );
            }
        }
    }
}
