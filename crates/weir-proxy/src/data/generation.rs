//! The part of the configuration that a reload replaces, as one unit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::filter_pool::FilterPool;
use super::login_pool::LoginPool;
use crate::cluster_id::ClusterId;
use crate::config::ProxyLimits;
use crate::virtual_cluster::VirtualCluster;

/// A configuration in use. It never changes; a reload creates the next one.
#[derive(Debug)]
pub(crate) struct Generation {
    /// 1 at startup; each reload adds 1.
    pub(crate) number: u64,
    pub(crate) clusters: Vec<Arc<VirtualCluster>>,
    pub(crate) limits: ProxyLimits,
    /// Time that in-flight requests have to complete when their connection has to end.
    pub(crate) drain: Duration,
    /// Filter threads; `None` if there have been no filters yet.
    pub(crate) pool: Option<Arc<FilterPool>>,
    /// Login threads; `None` if there have been no logins at the proxy yet.
    pub(crate) logins: Option<Arc<LoginPool>>,
}

impl Generation {
    pub(crate) fn cluster(&self, id: ClusterId) -> Option<&Arc<VirtualCluster>> {
        self.clusters.iter().find(|cluster| cluster.id == id)
    }

    /// Reads files of users again that have changed, or all of them with `always`.
    pub(crate) fn reload_users(&self, always: bool) {
        for cluster in &self.clusters {
            if let Some(logins) = &cluster.config.logins {
                logins.reload(&cluster.config.name, always);
            }
        }
    }

    /// Returns the configuration with which a connection of `old` continues; `None` if it has to
    /// end.
    pub(crate) fn successor(&self, old: &VirtualCluster) -> Option<&Arc<VirtualCluster>> {
        let new = self.cluster(old.id)?;
        new.continues(old).then_some(new)
    }
}

/// The generation for new work. Event loops have their own reference.
#[derive(Debug)]
pub(crate) struct CurrentGeneration(Mutex<Arc<Generation>>);

impl CurrentGeneration {
    pub(crate) fn new(first: Arc<Generation>) -> Self {
        Self(Mutex::new(first))
    }

    pub(crate) fn get(&self) -> Arc<Generation> {
        Arc::clone(&self.lock())
    }

    pub(crate) fn set(&self, next: Arc<Generation>) {
        *self.lock() = next;
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Generation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
