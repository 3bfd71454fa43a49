//! Preview of a reload, which changes nothing.

use std::sync::Arc;

use crossbeam_channel::bounded;
use weir_net::listener::ListenerSource;

use super::{LOOP_TIMEOUT, OpenedClusters, ReloadError, Reloader};
use crate::config::ProxyConfig;
use crate::data::{ClosingByCluster, Generation, LoopEvent};
use crate::virtual_cluster::VirtualCluster;

/// The effect that a reload would have now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ReloadPreview {
    /// Number of the configuration in use.
    pub generation: u64,
    /// Client connections that would end.
    pub closing: usize,
    /// Keys outside of clusters whose values differ in the file.
    pub settings: Vec<String>,
    /// Clusters that would change.
    pub clusters: Vec<ClusterChange>,
}

/// A cluster that a reload would change.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ClusterChange {
    /// Name of the cluster.
    pub name: String,
    /// Kind of change.
    pub change: ChangeKind,
    /// Keys of its table whose values differ.
    pub keys: Vec<String>,
    /// Client connections that would end.
    pub closing: usize,
    /// Those of them whose ends would be spread over `reload_spread_ms`.
    pub spread: usize,
}

/// Kind of change of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The cluster is new.
    Added,
    /// The cluster is not in the file any more.
    Removed,
    /// None of the bootstrap servers is one of those in use: it is another cluster.
    Moved,
    /// Other keys differ.
    Changed,
}

impl Reloader {
    /// Reads and checks the configuration as a reload does, and returns what the reload would
    /// change. New addresses are bound for a moment.
    pub(crate) fn preview(&self) -> Result<ReloadPreview, ReloadError> {
        let threads = self.lock_threads()?;
        let old = self.current.get();
        let mut next_id = threads.next_id;
        let mut config = ProxyConfig::load(self.origin.file(), self.origin.overrides())?;
        if let Some(key) = self.fixed.changed_by(&config) {
            return Err(ReloadError::NotReloadable(key));
        }
        // Its sockets are closed again.
        let source = Arc::new(ListenerSource::new(config.event_loops));
        let opened = OpenedClusters::open(&mut config, Some(&old), &source, &mut next_id)?;
        let next = opened.clusters();
        self.current.set_candidate(Some(next.clone().into()));
        let closing = self.closing();
        self.current.set_candidate(None);
        let clusters = changes(&old, &next, &config, &closing);
        Ok(ReloadPreview {
            generation: old.number,
            closing: clusters.iter().map(|cluster| cluster.closing).sum(),
            settings: old.written.changed_keys(&config.written),
            clusters,
        })
    }

    /// Returns how many connections would end, by the name of their cluster. Event loops compare
    /// with the candidate.
    fn closing(&self) -> ClosingByCluster {
        let (reply, replies) = bounded(self.senders.len());
        for sender in &self.senders {
            let preview = LoopEvent::Preview(reply.clone());
            // The watchdog reports a loop that does not respond.
            let _ = sender.post(preview, LOOP_TIMEOUT);
        }
        drop(reply);
        let mut sum = ClosingByCluster::new();
        while let Ok(counts) = replies.recv_timeout(LOOP_TIMEOUT) {
            for (name, closing) in counts {
                sum.entry(name).or_default().add(closing);
            }
        }
        sum
    }
}

fn changes(
    old: &Generation,
    next: &[Arc<VirtualCluster>],
    config: &ProxyConfig,
    closing: &ClosingByCluster,
) -> Vec<ClusterChange> {
    let change = |name: &str, change, keys| {
        let closing = closing.get(name).copied().unwrap_or_default();
        ClusterChange {
            name: name.to_owned(),
            change,
            keys,
            closing: closing.sum(),
            spread: match config.reload_spread_ms {
                0 => 0,
                _ => closing.spread,
            },
        }
    };
    let is_retained = |one: &VirtualCluster| next.iter().any(|cluster| cluster.id == one.id);
    let removed = old.clusters.iter().filter(|one| !is_retained(one));
    let removed = removed.map(|one| change(&one.config.name, ChangeKind::Removed, Vec::new()));
    let present = next.iter().filter_map(|cluster| {
        let name = &cluster.config.name;
        let Some(known) = old.cluster(cluster.id) else {
            return Some(change(name, ChangeKind::Added, Vec::new()));
        };
        let mut keys = old.written.changed_cluster_keys(&config.written, name);
        if !known.config.has_same_rules(&cluster.config) && !keys.iter().any(|key| key == ACCESS) {
            // The file of ACLs.
            keys.push(ACCESS.to_owned());
        }
        let kind = match known.is_moved_by(&cluster.config) {
            true => ChangeKind::Moved,
            false => ChangeKind::Changed,
        };
        (!keys.is_empty()).then(|| change(name, kind, keys))
    });
    removed.chain(present).collect()
}

const ACCESS: &str = "access";
