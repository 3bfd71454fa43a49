//! The state of a virtual cluster that all threads share.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::broker_registry::BrokerRegistry;
use crate::health::ClusterHealth;

/// A running virtual cluster.
#[derive(Debug)]
pub(crate) struct VirtualCluster {
    pub(crate) name: String,
    pub(crate) listen: SocketAddr,
    pub(crate) broker_registry: Arc<BrokerRegistry>,
    pub(crate) health: Arc<ClusterHealth>,
}

impl VirtualCluster {
    /// Returns `true` if the cluster is ready, and the text of the readiness page: the state, the
    /// reason and the brokers that do not respond.
    pub(crate) fn readiness(&self) -> (bool, String) {
        let (name, is_responding) = (&self.name, self.health.is_responding());
        let word = if is_responding { "ready" } else { "not ready" };
        let error = self.health.error();
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        let mut text = format!("cluster {name}: {word}{error}\n");
        for row in self.health.rows() {
            if let Some(unresponsive) = row.describe() {
                text.push_str(&format!(
                    "cluster {name}: broker does not respond: {unresponsive}\n"
                ));
            }
        }
        (is_responding, text)
    }
}
