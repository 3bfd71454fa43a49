//! Numbers of connections that a reload ends.

use std::collections::BTreeMap;

/// Numbers of connections that a reload ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClosingCounts {
    /// Connections that end after their in-flight requests.
    pub(crate) immediate: usize,
    /// Connections whose ends are spread over time.
    pub(crate) spread: usize,
}

impl ClosingCounts {
    pub(crate) fn sum(self) -> usize {
        self.immediate + self.spread
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.immediate += other.immediate;
        self.spread += other.spread;
    }
}

/// Numbers of connections by the name of their cluster.
pub(crate) type ClosingByCluster = BTreeMap<String, ClosingCounts>;
