//! Counters of the client connections of a virtual cluster.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_net::lock;

/// Cause of the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseCause {
    /// One side closed the connection, or its login failed.
    Peer,
    /// The proxy shuts down.
    Drain,
    /// A reload changed or removed the cluster.
    Reload,
    /// No traffic or no progress for too long.
    Timeout,
    /// Invalid or rejected bytes from either side.
    Protocol,
    /// No broker was reachable.
    NoBroker,
    /// The broker stopped responding.
    SilentBroker,
    /// The client's socket or TLS failed.
    Client,
    /// The broker's socket or TLS failed.
    Broker,
}

/// Causes in the order of their numbers, with their names in metrics.
const CAUSES: [(CloseCause, &str); 9] = [
    (CloseCause::Peer, "peer"),
    (CloseCause::Drain, "drain"),
    (CloseCause::Reload, "reload"),
    (CloseCause::Timeout, "timeout"),
    (CloseCause::Protocol, "protocol"),
    (CloseCause::NoBroker, "no_broker"),
    (CloseCause::SilentBroker, "silent_broker"),
    (CloseCause::Client, "client"),
    (CloseCause::Broker, "broker"),
];

/// Connections of a virtual cluster, counted by all event loops.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    /// Open connections by the node id whose address the client has used; `None` stands for the
    /// bootstrap address. Ids without connections have no entry.
    open: Mutex<BTreeMap<Option<i32>, u64>>,
    closed: [AtomicU64; CAUSES.len()],
}

impl ConnectionCounters {
    pub(crate) fn count_opened(&self, node_id: Option<i32>) {
        *lock(&self.open).entry(node_id).or_default() += 1;
    }

    pub(crate) fn count_closed(&self, node_id: Option<i32>, cause: CloseCause) {
        self.closed[cause as usize].fetch_add(1, Ordering::Relaxed);
        let mut open = lock(&self.open);
        let left = open.remove(&node_id).unwrap_or_default();
        if left > 1 {
            open.insert(node_id, left - 1);
        }
    }

    /// Returns the numbers of open connections by node id. That of the bootstrap address is always
    /// there.
    pub(crate) fn open(&self) -> BTreeMap<Option<i32>, u64> {
        let mut open = lock(&self.open).clone();
        open.entry(None).or_default();
        open
    }

    /// Returns the numbers of closed connections by the name of their cause.
    pub(crate) fn closed(&self) -> [(&'static str, u64); CAUSES.len()] {
        CAUSES.map(|(cause, name)| {
            let count = self.closed[cause as usize].load(Ordering::Relaxed);
            (name, count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_count() {
        let counters = ConnectionCounters::default();
        for (number, (cause, _)) in CAUSES.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            counters.count_closed(None, cause);
        }
        assert!(counters.closed().iter().all(|(_, count)| *count == 1));
    }

    #[test]
    fn open_connections_count_for_their_broker() {
        let counters = ConnectionCounters::default();
        for node_id in [Some(1), Some(2), None, Some(1)] {
            counters.count_opened(node_id);
        }
        let open = |counters: &ConnectionCounters| Vec::from_iter(counters.open());
        assert_eq!(open(&counters), [(None, 1), (Some(1), 2), (Some(2), 1)]);
        for node_id in [Some(1), Some(2), None] {
            counters.count_closed(node_id, CloseCause::Peer);
        }
        assert_eq!(open(&counters), [(None, 0), (Some(1), 1)]);
    }
}
