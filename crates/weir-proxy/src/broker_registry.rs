//! The brokers of one virtual cluster, and the port of the proxy that stands for each.
//!
//! Brokers are learnt from answers on their way to clients: before a client hears of a broker, its port
//! is open. Looked at when a connection begins or an answer names brokers, never per frame.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use weir_net::MailboxSender;
use weir_net::listener::listen_shared;

use crate::config::{BrokerPorts, ClusterConfig, HostPort};
use crate::data::{ListenerTarget, LoopEvent};
use crate::wire::{AdvertisedAddress, BrokerNode};

/// How long a broker's port stays open after the cluster has stopped naming it.
const LINGER: Duration = Duration::from_secs(600);
/// How long a loop's inbox may be full before its new listener is given up.
const POST_TIMEOUT: Duration = Duration::from_secs(1);

/// The brokers of one virtual cluster.
#[derive(Debug)]
pub(crate) struct BrokerRegistry {
    /// Place of the cluster in the configuration.
    cluster: usize,
    name: String,
    bind: IpAddr,
    advertised_host: String,
    ports: BrokerPorts,
    loops: usize,
    posts: OnceLock<Vec<MailboxSender<LoopEvent>>>,
    state: Mutex<BTreeMap<i32, RegisteredBroker>>,
    /// Grows with every change, so that copies know when they are old.
    version: AtomicU64,
}

/// A broker that clients know of.
#[derive(Debug, Clone)]
struct RegisteredBroker {
    upstream: HostPort,
    /// Port of the proxy.
    port: u16,
    /// Kept whatever the cluster says.
    fixed: bool,
    seen: Instant,
}

/// A broker and its port, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerInfo {
    /// Number of the broker.
    pub id: i32,
    /// Where the proxy reaches it.
    pub upstream: String,
    /// Where clients reach it.
    pub place: String,
}

impl BrokerRegistry {
    /// The directory of the cluster at that place of the configuration.
    pub(crate) fn new(cluster: usize, config: &ClusterConfig, loops: usize) -> Self {
        Self {
            cluster,
            name: config.name.clone(),
            bind: config.listen.ip(),
            advertised_host: config.advertised_host.clone(),
            ports: config.broker_ports,
            loops,
            posts: OnceLock::new(),
            state: Mutex::new(BTreeMap::new()),
            version: AtomicU64::new(0),
        }
    }

    /// Tells where new listening sockets are to be served.
    pub(crate) fn serve_at(&self, posts: Vec<MailboxSender<LoopEvent>>) {
        // Set once, before any connection.
        let _ = self.posts.set(posts);
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Where a broker is reached.
    pub(crate) fn upstream(&self, id: i32) -> Option<HostPort> {
        self.state().get(&id).map(|broker| broker.upstream.clone())
    }

    /// Where any broker is reached, those that are known besides those that are configured.
    pub(crate) fn upstreams(&self) -> Vec<HostPort> {
        let state = self.state();
        state
            .values()
            .map(|broker| broker.upstream.clone())
            .collect()
    }

    pub(crate) fn rows(&self) -> Vec<BrokerInfo> {
        let state = self.state();
        let rows = state.iter().map(|(id, broker)| BrokerInfo {
            id: *id,
            upstream: broker.upstream.to_string(),
            place: HostPort::new(&self.advertised_host, self.ports.advertised(broker.port))
                .to_string(),
        });
        rows.collect()
    }

    /// The place that stands for a broker, opened if it is new.
    pub(crate) fn learn(&self, node: BrokerNode<'_>, fixed: bool) -> Option<AdvertisedAddress> {
        let mut state = self.state();
        if let Some(broker) = state.get_mut(&node.id) {
            broker.seen = Instant::now();
            if !broker.fixed && !broker.upstream.is(node.host, node.port) {
                let upstream = HostPort::new(node.host, node.port);
                let cluster = &self.name;
                tracing::info!(cluster, id = node.id, %upstream, "broker has another address");
                broker.upstream = upstream;
                self.version.fetch_add(1, Ordering::Release);
            }
            return Some(self.place(broker.port));
        }
        let port = self.open(node.id, &mut state)?;
        let upstream = HostPort::new(node.host, node.port);
        let (cluster, place) = (&self.name, self.ports.advertised(port));
        tracing::info!(cluster, id = node.id, %upstream, %place, "broker has a port of its own");
        let broker = RegisteredBroker {
            upstream,
            port,
            fixed,
            seen: Instant::now(),
        };
        state.insert(node.id, broker);
        self.version.fetch_add(1, Ordering::Release);
        Some(self.place(port))
    }

    /// Closes the ports of brokers that the cluster has not named for long.
    pub(crate) fn forget(&self, now: Instant) {
        let mut state = self.state();
        let gone =
            |broker: &RegisteredBroker| !broker.fixed && now.duration_since(broker.seen) > LINGER;
        let ids: Vec<_> = state
            .iter()
            .filter_map(|(id, broker)| gone(broker).then_some(*id))
            .collect();
        for id in ids {
            self.close(id, &mut state);
        }
    }

    /// Tells the event loops that a broker does not answer.
    pub(crate) fn tell_silent(&self, broker: &HostPort) {
        for post in self.posts.get().into_iter().flatten() {
            // It is told again soon. A loop that has ended has no connections.
            let _ = post.post(
                LoopEvent::Silent(self.cluster, broker.clone()),
                POST_TIMEOUT,
            );
        }
    }

    fn close(&self, id: i32, state: &mut BTreeMap<i32, RegisteredBroker>) {
        state.remove(&id);
        self.version.fetch_add(1, Ordering::Release);
        let cluster = &self.name;
        tracing::info!(cluster, id, "broker is gone, its port is closed");
        for post in self.posts.get().into_iter().flatten() {
            let mail = LoopEvent::Unlisten(self.cluster, ListenerTarget::Broker(id));
            // A loop that has ended listens nowhere.
            let _ = post.post(mail, POST_TIMEOUT);
        }
    }

    /// Listens for a new broker's clients; its port.
    fn open(&self, id: i32, state: &mut BTreeMap<i32, RegisteredBroker>) -> Option<u16> {
        let posts = self.posts.get()?;
        let port = self.ports.of(id);
        let holder = state
            .iter()
            .find(|(_, broker)| port != 0 && broker.port == port)
            .map(|(id, broker)| (*id, broker.fixed));
        match holder {
            Some((holder, false)) if self.is_stale(state, holder) => self.close(holder, state),
            Some((holder, _)) => {
                tracing::error!(
                    cluster = self.name,
                    "brokers {holder} and {id} fall on the same port {port}, {id} is hidden from \
                     clients: give the cluster more broker_ports"
                );
                return None;
            }
            None => {}
        }
        let address = SocketAddr::new(self.bind, port);
        let sockets = match self.listen(address) {
            Ok(sockets) => sockets,
            Err(error) => {
                tracing::error!(
                    cluster = self.name,
                    "cannot listen on {address} for broker {id}, it is hidden from clients: {error}"
                );
                return None;
            }
        };
        let port = sockets.first()?.local_addr().ok()?.port();
        for (socket, post) in sockets.into_iter().zip(posts) {
            let mail = LoopEvent::Listen(self.cluster, ListenerTarget::Broker(id), socket);
            if post.post(mail, POST_TIMEOUT).is_err() {
                tracing::warn!(
                    cluster = self.name,
                    id,
                    "an event loop does not take a listener"
                );
            }
        }
        Some(port)
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Vec<TcpListener>> {
        if address.port() != 0 {
            // With SO_REUSEPORT another process on the port would silently get half of the clients.
            drop(TcpListener::bind(address)?);
        }
        listen_shared(address, self.loops)
    }

    /// Whether a broker has not been named while others were.
    fn is_stale(&self, state: &BTreeMap<i32, RegisteredBroker>, id: i32) -> bool {
        let newest = state.values().map(|broker| broker.seen).max();
        let seen = state.get(&id).map(|broker| broker.seen);
        newest
            .zip(seen)
            .is_some_and(|(newest, seen)| newest.duration_since(seen) > STALE)
    }

    fn place(&self, port: u16) -> AdvertisedAddress {
        AdvertisedAddress {
            host: self.advertised_host.clone(),
            port: self.ports.advertised(port),
        }
    }

    fn state(&self) -> MutexGuard<'_, BTreeMap<i32, RegisteredBroker>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a broker may go unnamed before another may have its port.
const STALE: Duration = Duration::from_secs(30);
