//! The part of the configuration that a reload replaces, as one unit.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_net::lock;
use weir_net::stream::HandshakeAlert;

use super::events::{ListenerKey, ListenerTarget};
use super::filter_pool::FilterPool;
use super::login_pool::LoginPool;
use crate::cluster_id::ClusterId;
use crate::config::{NamedTarget, ProxyLimits, ServerNames, WrittenConfig};
use crate::name_listeners::NameListeners;
use crate::virtual_cluster::VirtualCluster;

/// A configuration in use. It never changes; a reload creates the next one.
#[derive(Debug)]
pub(crate) struct Generation {
    /// 1 at startup; each reload adds 1.
    pub(crate) number: u64,
    pub(crate) clusters: Vec<Arc<VirtualCluster>>,
    pub(crate) names: NameListeners,
    pub(crate) limits: ProxyLimits,
    /// Time that in-flight requests have to complete when their connection has to end.
    pub(crate) drain: Duration,
    /// Time over which the ends of connections are spread that a reload concerns.
    pub(crate) reload_spread: Duration,
    /// The file as written.
    pub(crate) written: WrittenConfig,
    /// Filter threads; `None` if there have been no filters yet.
    pub(crate) pool: Option<Arc<FilterPool>>,
    /// Login threads; `None` if there have been no logins at the proxy yet.
    pub(crate) logins: Option<Arc<LoginPool>>,
}

impl Generation {
    pub(crate) fn cluster(&self, id: ClusterId) -> Option<&Arc<VirtualCluster>> {
        self.clusters.iter().find(|cluster| cluster.id == id)
    }

    /// Returns `true` if connections of `peer` at `listener` begin with a PROXY header; `None` if
    /// none may begin.
    pub(crate) fn needs_header(&self, listener: ListenerKey, peer: IpAddr) -> Option<bool> {
        let cluster = match listener {
            ListenerKey::Target(id, _) => self.cluster(id)?,
            // The clusters of one address have the same settings.
            ListenerKey::Names(address) => self.sharing(address).next()?.0,
        };
        let proxy_protocol = cluster.config.proxy_protocol.as_ref();
        proxy_protocol.map_or(Some(false), |settings| settings.needs_header(peer))
    }

    /// Returns cluster and target of a server name at an address that clusters share.
    pub(crate) fn named(
        &self,
        address: SocketAddr,
        name: Option<&str>,
    ) -> Result<(Arc<VirtualCluster>, ListenerTarget), HandshakeAlert> {
        let Some(name) = name else {
            let is_only = self.sharing(address).count() == 1;
            let mut sharing = self.sharing(address);
            let default = sharing.find(|(_, names)| is_only || names.is_default);
            let (cluster, _) = default.ok_or(HandshakeAlert::MissingName)?;
            return Ok((Arc::clone(cluster), ListenerTarget::Bootstrap));
        };
        let mut sharing = self.sharing(address);
        let found = sharing.find_map(|(cluster, names)| Some((cluster, names.target(name)?)));
        let (cluster, target) = found.ok_or(HandshakeAlert::UnknownName)?;
        let target = match target {
            NamedTarget::Bootstrap => ListenerTarget::Bootstrap,
            NamedTarget::Broker(id) => ListenerTarget::Broker(id),
        };
        Ok((Arc::clone(cluster), target))
    }

    /// Returns `true` if the generation has a use for `listener`.
    pub(crate) fn has_listener(&self, listener: ListenerKey) -> bool {
        match listener {
            ListenerKey::Target(id, _) => self
                .cluster(id)
                .is_some_and(|cluster| cluster.config.has_ports()),
            ListenerKey::Names(address) => self.names.bound(address).is_some(),
        }
    }

    /// Returns the configured addresses of the listeners for bootstrap.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let with_ports = self.clusters.iter().filter(|one| one.config.has_ports());
        let of_clusters = with_ports.map(|cluster| cluster.config.listen);
        of_clusters.chain(self.names.addresses()).collect()
    }

    fn sharing(
        &self,
        address: SocketAddr,
    ) -> impl Iterator<Item = (&Arc<VirtualCluster>, &ServerNames)> {
        let clusters = self.clusters.iter();
        let named = clusters.filter_map(|one| Some((one, one.config.names.as_ref()?)));
        named.filter(move |(_, names)| names.listen == address)
    }

    /// Reads files of users and credentials again that have changed, or all of them with `always`.
    pub(crate) fn reload_users(&self, always: bool) {
        for cluster in &self.clusters {
            if let Some(identity) = &cluster.config.broker_identity {
                identity.reload(&cluster.config.name, always);
            }
            if let Some(logins) = &cluster.config.logins {
                logins.reload(&cluster.config.name, always);
            }
        }
    }
}

/// Clusters of one configuration.
type Clusters = Arc<[Arc<VirtualCluster>]>;

/// The generation for new work. Event loops have their own reference.
#[derive(Debug)]
pub(crate) struct CurrentGeneration {
    generation: Mutex<Arc<Generation>>,
    /// Clusters of a configuration that is only compared with the current one.
    candidate: Mutex<Option<Clusters>>,
}

impl CurrentGeneration {
    pub(crate) fn new(first: Arc<Generation>) -> Self {
        Self {
            generation: Mutex::new(first),
            candidate: Mutex::default(),
        }
    }

    pub(crate) fn get(&self) -> Arc<Generation> {
        Arc::clone(&lock(&self.generation))
    }

    pub(crate) fn set(&self, next: Arc<Generation>) {
        *lock(&self.generation) = next;
    }

    /// Returns the clusters to compare with.
    pub(super) fn candidate(&self) -> Option<Clusters> {
        lock(&self.candidate).clone()
    }

    pub(crate) fn set_candidate(&self, candidate: Option<Clusters>) {
        *lock(&self.candidate) = candidate;
    }
}
