//! The state of a virtual cluster that all threads share.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use weir_net::listener::listen_shared;

use crate::api_counters::ClusterApis;
use crate::broker_registry::BrokerRegistry;
use crate::config::ClusterConfig;
use crate::error::ProxyError;
use crate::health::{BrokerHealth, ClusterHealth};
use crate::versions::SupportedVersions;

#[derive(Debug)]
pub(crate) struct VirtualCluster {
    /// Index in the configuration.
    pub(crate) index: usize,
    pub(crate) config: Arc<ClusterConfig>,
    /// Bound bootstrap address.
    pub(crate) listen: SocketAddr,
    pub(crate) supported: SupportedVersions,
    pub(crate) broker_registry: Arc<BrokerRegistry>,
    pub(crate) health: ClusterHealth,
    /// Counters of its clients' requests.
    pub(crate) apis: ClusterApis,
}

impl VirtualCluster {
    /// Binds the bootstrap address of the cluster with index `index`, one socket per event loop.
    pub(crate) fn open(
        index: usize,
        config: ClusterConfig,
        loops: usize,
    ) -> Result<(Self, Vec<TcpListener>), ProxyError> {
        let address = config.listen;
        let fail = |error| ProxyError::Listen {
            address,
            key: format!("cluster \"{}\", listen", config.name),
            error,
        };
        let sockets = listen_shared(address, loops).map_err(fail)?;
        let listen = sockets[0].local_addr().map_err(fail)?;
        let config = Arc::new(config);
        let registry = BrokerRegistry::new(index, Arc::clone(&config), loops);
        let cluster = Self {
            index,
            listen,
            supported: config.supported_versions(),
            broker_registry: Arc::new(registry),
            health: ClusterHealth::default(),
            apis: ClusterApis::default(),
            config,
        };
        Ok((cluster, sockets))
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
