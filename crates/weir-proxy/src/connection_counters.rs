//! Counters of the client connections of a virtual cluster.

use std::sync::atomic::{AtomicU64, Ordering};

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
    opened: AtomicU64,
    closed: [AtomicU64; CAUSES.len()],
}

impl ConnectionCounters {
    pub(crate) fn count_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_closed(&self, cause: CloseCause) {
        self.closed[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of open connections, and of closed ones by the name of their cause.
    pub(crate) fn counts(&self) -> (u64, [(&'static str, u64); CAUSES.len()]) {
        // Closed ones first, so that a connection that opens and closes meanwhile is not missing.
        let closed = CAUSES.map(|(cause, name)| {
            let count = self.closed[cause as usize].load(Ordering::Relaxed);
            (name, count)
        });
        let opened = self.opened.load(Ordering::Relaxed);
        let sum: u64 = closed.iter().map(|(_, count)| count).sum();
        (opened.saturating_sub(sum), closed)
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
            counters.count_opened();
            counters.count_closed(cause);
        }
        counters.count_opened();
        let (open, closed) = counters.counts();
        assert_eq!(open, 1);
        assert!(closed.iter().all(|(_, count)| *count == 1));
    }
}
