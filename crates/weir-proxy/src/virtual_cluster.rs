//! State of a virtual cluster, shared by all threads.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};

use weir_net::listener::ListenerSource;

use crate::api_counters::ClusterApis;
use crate::broker_login::IdentityMode;
use crate::broker_registry::BrokerRegistry;
use crate::cluster_id::ClusterId;
use crate::config::ClusterConfig;
use crate::error::ProxyError;
use crate::health::{BrokerHealth, ClusterHealth};
use crate::name_listeners::{NameListeners, bind};
use crate::versions::SupportedVersions;
use weir_rules::audit::{ClusterAudit, ProxyAudit};

/// A virtual cluster in one generation of the configuration. All generations share brokers, health
/// and counters.
#[derive(Debug)]
pub(crate) struct VirtualCluster {
    pub(crate) id: ClusterId,
    /// Index in the configuration.
    pub(crate) index: usize,
    pub(crate) config: Arc<ClusterConfig>,
    /// Bound bootstrap address.
    pub(crate) listen: SocketAddr,
    pub(crate) supported: SupportedVersions,
    pub(crate) broker_registry: Arc<BrokerRegistry>,
    pub(crate) health: Arc<ClusterHealth>,
    /// Counters of its clients' requests.
    pub(crate) apis: Arc<ClusterApis>,
    /// Audit log; empty without one.
    pub(crate) audit: OnceLock<Arc<ClusterAudit>>,
}

/// State of a cluster that a reload does not replace.
struct LastingState {
    broker_registry: Arc<BrokerRegistry>,
    health: Arc<ClusterHealth>,
    apis: Arc<ClusterApis>,
}

impl VirtualCluster {
    /// Binds the bootstrap address of a new cluster, one socket per event loop.
    pub(crate) fn open(
        (id, index): (ClusterId, usize),
        mut config: ClusterConfig,
        bound: &BoundAddresses<'_>,
    ) -> Result<(Self, Vec<TcpListener>), ProxyError> {
        let (listen, sockets) = bound.listen(&mut config, None)?;
        let config = Arc::new(config);
        let source = Arc::clone(bound.source);
        let registry = BrokerRegistry::new(id, Arc::clone(&config), source);
        let state = LastingState {
            broker_registry: Arc::new(registry),
            health: Arc::default(),
            apis: Arc::default(),
        };
        Ok((Self::new((id, index), config, listen, state), sockets))
    }

    /// Creates the next generation of this cluster. Binds its bootstrap address if it has changed.
    pub(crate) fn next(
        &self,
        index: usize,
        mut config: ClusterConfig,
        bound: &BoundAddresses<'_>,
    ) -> Result<(Self, Vec<TcpListener>), ProxyError> {
        if !self.is_moved_by(&config) {
            config.keep_topic_names(&self.config);
        }
        let (listen, sockets) = bound.listen(&mut config, Some(self))?;
        let state = LastingState {
            broker_registry: Arc::clone(&self.broker_registry),
            health: Arc::clone(&self.health),
            apis: Arc::clone(&self.apis),
        };
        let next = Self::new((self.id, index), Arc::new(config), listen, state);
        Ok((next, sockets))
    }

    fn new(
        (id, index): (ClusterId, usize),
        config: Arc<ClusterConfig>,
        listen: SocketAddr,
        state: LastingState,
    ) -> Self {
        Self {
            id,
            index,
            listen,
            supported: config.supported_versions(),
            broker_registry: state.broker_registry,
            health: state.health,
            apis: state.apis,
            audit: OnceLock::new(),
            config,
        }
    }

    /// Returns `true` if `config` has none of the current bootstrap servers and thus describes
    /// another cluster.
    pub(crate) fn is_moved_by(&self, config: &ClusterConfig) -> bool {
        let mut upstream = config.upstream.iter();
        !upstream.any(|broker| self.config.upstream.contains(broker))
    }

    /// Returns `true` if this generation has the brokers of `old`, an earlier one, and clients and
    /// the proxy log in as before.
    pub(crate) fn keeps_brokers_and_logins(&self, old: &Self) -> bool {
        !old.is_moved_by(&self.config)
            && self.config.logins.is_some() == old.config.logins.is_some()
            && self.config.certificates.is_some() == old.config.certificates.is_some()
            && self.broker_mode() == old.broker_mode()
    }

    /// Starts writing events of its clients to the audit log.
    pub(crate) fn audit_with(&self, log: &Arc<ProxyAudit>) {
        let identity = self.broker_mode().map_or("pass", IdentityMode::as_str);
        let new = || {
            Arc::new(ClusterAudit::new(
                Arc::clone(log),
                &self.config.name,
                identity,
            ))
        };
        self.audit.get_or_init(new);
    }

    fn broker_mode(&self) -> Option<IdentityMode> {
        self.config.broker_identity.as_ref().map(|one| one.mode)
    }

    /// Returns `true` if the cluster is ready, and the text of the readiness page: the state, the
    /// reason and the brokers that do not respond.
    pub(crate) fn readiness(&self) -> (bool, String) {
        let (name, is_responding) = (&self.config.name, self.health.is_responding());
        let word = if is_responding { "ready" } else { "not ready" };
        let error = self.health.error();
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        let mut text = format!("cluster {name}: {word}{error}\n");
        for error in self.health.rows().iter().filter_map(BrokerHealth::describe) {
            text += &format!("cluster {name}: broker does not respond: {error}\n");
        }
        (is_responding, text)
    }
}

/// Addresses of a configuration that is about to be used.
pub(crate) struct BoundAddresses<'a> {
    pub(crate) source: &'a Arc<ListenerSource>,
    pub(crate) names: &'a NameListeners,
    /// Addresses of the configuration in use.
    pub(crate) own: &'a [SocketAddr],
}

impl BoundAddresses<'_> {
    /// Returns the bootstrap address of a cluster. Binds it if it is new, and returns its sockets.
    fn listen(
        &self,
        config: &mut ClusterConfig,
        current: Option<&VirtualCluster>,
    ) -> Result<(SocketAddr, Vec<TcpListener>), ProxyError> {
        let has_ports = config.has_ports();
        if let Some(names) = &mut config.names {
            // Bound before the clusters.
            let bound = self.names.bound(names.listen).unwrap_or(names.listen);
            names.set_port(bound.port());
            if !has_ports {
                return Ok((bound, Vec::new()));
            }
        }
        let is_same =
            |one: &&VirtualCluster| one.config.listen == config.listen && one.config.has_ports();
        match current.filter(is_same) {
            Some(current) => Ok((current.listen, Vec::new())),
            None => {
                let key = format!("cluster \"{}\", listen", config.name);
                bind(config.listen, self.own, self.source, &key)
            }
        }
    }
}
