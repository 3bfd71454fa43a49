//! The brokers of one virtual cluster and the proxy port of each.
//!
//! Brokers are registered from responses: the port of a broker is open before a client receives its
//! address. The registry is used when a connection begins or a response names brokers, never per
//! frame.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use weir_net::MailboxSender;
use weir_net::listener::ListenerSource;

use crate::cluster_id::ClusterId;
use crate::config::{ClusterConfig, HostPort};
use crate::data::{ListenerKey, ListenerTarget, LoopEvent};
use crate::wire::BrokerNode;

/// Time for which a broker's port stays open after the cluster stopped naming the broker.
const PORT_RETENTION: Duration = Duration::from_secs(600);
/// Maximum wait for a full loop inbox when a listener is handed over.
const POST_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct BrokerRegistry {
    cluster: ClusterId,
    source: Arc<ListenerSource>,
    senders: OnceLock<Vec<MailboxSender<LoopEvent>>>,
    state: Mutex<RegistryState>,
    /// Incremented by every change, so that caches can detect that they are outdated.
    version: AtomicU64,
}

#[derive(Debug)]
struct RegistryState {
    config: Arc<ClusterConfig>,
    brokers: BTreeMap<i32, RegisteredBroker>,
}

#[derive(Debug, Clone)]
struct RegisteredBroker {
    upstream: HostPort,
    /// The address is of a cluster that the configuration no longer names.
    outdated: bool,
    /// Port of the proxy; `None` if the cluster has no ports for brokers.
    port: Option<u16>,
    /// Configured; never removed.
    fixed: bool,
    seen: Instant,
}

/// A broker and its advertised address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerInfo {
    /// Node id.
    pub id: i32,
    /// Address at which the proxy connects to the broker.
    pub upstream: String,
    /// Address that clients see.
    pub advertised: String,
    /// Address for clients that select brokers by server name, if there are others, too.
    pub advertised_name: Option<String>,
}

/// The addresses of a broker that clients see. At least one is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdvertisedAddresses {
    /// Own port of the broker.
    port: Option<HostPort>,
    /// Server name of the broker.
    name: Option<HostPort>,
}

impl AdvertisedAddresses {
    /// Returns the address for clients that select brokers by server name, or by port.
    pub(crate) fn of(&self, by_name: bool) -> Option<&HostPort> {
        // After a reload, a client may have come by a way that the cluster has no more.
        match by_name {
            true => self.name.as_ref().or(self.port.as_ref()),
            false => self.port.as_ref().or(self.name.as_ref()),
        }
    }
}

impl BrokerRegistry {
    pub(crate) fn new(
        cluster: ClusterId,
        config: Arc<ClusterConfig>,
        source: Arc<ListenerSource>,
    ) -> Self {
        Self {
            cluster,
            source,
            senders: OnceLock::new(),
            state: Mutex::new(RegistryState {
                config,
                brokers: BTreeMap::new(),
            }),
            version: AtomicU64::new(0),
        }
    }

    /// Sets the event loops that serve new listeners.
    pub(crate) fn serve_at(&self, senders: Vec<MailboxSender<LoopEvent>>) {
        // Set once, before any connection.
        let _ = self.senders.set(senders);
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn upstream(&self, id: i32) -> Option<HostPort> {
        let state = self.state();
        let known = state.brokers.get(&id).filter(|broker| !broker.outdated);
        known.map(|broker| broker.upstream.clone())
    }

    pub(crate) fn upstreams(&self) -> Vec<HostPort> {
        let state = self.state();
        let known = state.brokers.values().filter(|broker| !broker.outdated);
        known.map(|broker| broker.upstream.clone()).collect()
    }

    pub(crate) fn infos(&self) -> Vec<BrokerInfo> {
        let state = self.state();
        let infos = state.brokers.iter().map(|(id, broker)| {
            let addresses = state.addresses(*id, broker.port);
            let name = addresses.name.as_ref().filter(|_| broker.port.is_some());
            BrokerInfo {
                id: *id,
                upstream: broker.upstream.to_string(),
                advertised: addresses
                    .of(false)
                    .map_or_else(String::new, HostPort::to_string),
                advertised_name: name.map(HostPort::to_string),
            }
        });
        infos.collect()
    }

    /// Returns the advertised addresses of a broker. Opens a port if the broker is new and the
    /// cluster has ports.
    pub(crate) fn register_broker(
        &self,
        node: BrokerNode<'_>,
        fixed: bool,
    ) -> Option<AdvertisedAddresses> {
        let mut state = self.state();
        let RegistryState { config, brokers } = &mut *state;
        if let Some(broker) = brokers.get_mut(&node.id) {
            broker.seen = Instant::now();
            let is_known = broker.upstream.is(node.host, node.port) && !broker.outdated;
            // Only the configuration changes what it has fixed.
            if (fixed || !broker.fixed) && !is_known {
                let upstream = HostPort::new(node.host, node.port);
                let cluster = &config.name;
                tracing::info!(cluster, id = node.id, %upstream, "broker address changed");
                broker.upstream = upstream;
                broker.outdated = false;
                self.version.fetch_add(1, Ordering::Release);
            }
            broker.fixed |= fixed;
            let port = broker.port;
            return Some(state.addresses(node.id, port));
        }
        let port = match state.config.has_ports() {
            true => Some(self.open(node.id, &mut state)?),
            false => None,
        };
        let upstream = HostPort::new(node.host, node.port);
        let addresses = state.addresses(node.id, port);
        let (cluster, advertised) = (&state.config.name, addresses.of(false));
        let advertised = advertised.map_or_else(String::new, HostPort::to_string);
        tracing::info!(cluster, id = node.id, %upstream, advertised, "broker registered");
        let broker = RegisteredBroker {
            upstream,
            outdated: false,
            port,
            fixed,
            seen: Instant::now(),
        };
        state.brokers.insert(node.id, broker);
        self.version.fetch_add(1, Ordering::Release);
        Some(addresses)
    }

    /// Closes the ports of brokers that the cluster has not named for [`PORT_RETENTION`].
    pub(crate) fn close_stale_ports(&self, now: Instant) {
        let mut state = self.state();
        let is_stale = |broker: &RegisteredBroker| {
            !broker.fixed && now.duration_since(broker.seen) > PORT_RETENTION
        };
        let ids: Vec<_> = state
            .brokers
            .iter()
            .filter_map(|(id, broker)| is_stale(broker).then_some(*id))
            .collect();
        for id in ids {
            self.close(id, &mut state);
        }
    }

    /// Switches to the next configuration. `is_moved`: it names another cluster, whose brokers are
    /// not known yet. Ports that the configuration places elsewhere are closed; they open again
    /// when the cluster names their brokers.
    pub(crate) fn apply(&self, config: Arc<ClusterConfig>, is_moved: bool) {
        let mut state = self.state();
        let old = std::mem::replace(&mut state.config, Arc::clone(&config));
        for broker in state.brokers.values_mut() {
            broker.outdated |= is_moved;
            broker.fixed = false;
        }
        let is_elsewhere = |id: i32| {
            let ports = [&old, &config].map(|config| config.broker_ports.of(id));
            let ways = [&old, &config].map(|config| config.has_ports());
            ports[0] != ports[1] || ways[0] != ways[1] || old.listen.ip() != config.listen.ip()
        };
        let ids: Vec<_> = state.brokers.keys().copied().collect();
        for id in ids.into_iter().filter(|id| is_elsewhere(*id)) {
            self.close(id, &mut state);
        }
        self.version.fetch_add(1, Ordering::Release);
        drop(state);
        self.register_configured(&config);
    }

    /// Registers the brokers of the configuration, whose ports are always open.
    pub(crate) fn register_configured(&self, config: &ClusterConfig) {
        for (id, address) in &config.brokers {
            let node = BrokerNode {
                id: *id,
                host: &address.host,
                port: address.port,
            };
            self.register_broker(node, true);
        }
    }

    /// Reports to the event loops that a broker does not respond.
    pub(crate) fn report_unresponsive(&self, broker: &HostPort) {
        for sender in self.senders.get().into_iter().flatten() {
            let event = LoopEvent::Unresponsive(self.cluster, broker.clone());
            // The probe repeats the report. A loop that has ended has no connections.
            let _ = sender.post(event, POST_TIMEOUT);
        }
    }

    fn close(&self, id: i32, state: &mut RegistryState) {
        state.brokers.remove(&id);
        self.version.fetch_add(1, Ordering::Release);
        let cluster = &state.config.name;
        tracing::info!(cluster, id, "broker removed, port closed");
        for sender in self.senders.get().into_iter().flatten() {
            let event = LoopEvent::Unlisten(self.listener_of(id));
            // A loop that has ended has no listeners.
            let _ = sender.post(event, POST_TIMEOUT);
        }
    }

    /// Opens a listener for the clients of a new broker and returns its port.
    fn open(&self, id: i32, state: &mut RegistryState) -> Option<u16> {
        let senders = self.senders.get()?;
        let config = Arc::clone(&state.config);
        let cluster = &config.name;
        let port = config.broker_ports.of(id);
        let holder = state
            .brokers
            .iter()
            .find(|(_, broker)| port != 0 && broker.port == Some(port))
            .map(|(id, broker)| (*id, broker.fixed));
        match holder {
            Some((holder, false)) if self.is_unnamed(state, holder) => self.close(holder, state),
            Some((port_owner, _)) => {
                tracing::error!(
                    cluster,
                    port,
                    broker = id,
                    port_owner,
                    "two brokers map to the same port, broker hidden from clients: \
                     increase broker_ports"
                );
                return None;
            }
            None => {}
        }
        let address = SocketAddr::new(config.listen.ip(), port);
        let sockets = match self.source.open(address) {
            Ok(sockets) => sockets,
            Err(error) => {
                let text = "listen failed, broker hidden from clients";
                tracing::error!(cluster, %address, broker = id, %error, "{text}");
                return None;
            }
        };
        let port = sockets.first()?.local_addr().ok()?.port();
        for (socket, sender) in sockets.into_iter().zip(senders) {
            let event = LoopEvent::Listen(self.listener_of(id), socket);
            if sender.post(event, POST_TIMEOUT).is_err() {
                tracing::warn!(cluster, id, "event loop did not accept a listener");
            }
        }
        Some(port)
    }

    /// Returns `true` if the broker was not named for [`REASSIGN_AFTER`] while others were.
    fn is_unnamed(&self, state: &RegistryState, id: i32) -> bool {
        let newest = state.brokers.values().map(|broker| broker.seen).max();
        let seen = state.brokers.get(&id).map(|broker| broker.seen);
        newest
            .zip(seen)
            .is_some_and(|(newest, seen)| newest.duration_since(seen) > REASSIGN_AFTER)
    }

    fn listener_of(&self, id: i32) -> ListenerKey {
        ListenerKey::Target(self.cluster, ListenerTarget::Broker(id))
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegistryState {
    /// Returns the advertised addresses of a broker with this port of the proxy.
    fn addresses(&self, id: i32, port: Option<u16>) -> AdvertisedAddresses {
        let config = &self.config;
        AdvertisedAddresses {
            port: port.map(|port| {
                let port = config.broker_ports.advertised(port);
                HostPort::new(&config.advertised_host, port)
            }),
            name: config.names.as_ref().map(|names| names.address_of(id)),
        }
    }
}

/// Time after which another broker may take over the port of an unnamed broker.
const REASSIGN_AFTER: Duration = Duration::from_secs(30);
