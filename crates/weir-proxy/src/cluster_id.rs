//! Identity of virtual clusters.

/// Identifies a cluster through all generations. A cluster that is removed and added again has a
/// new id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClusterId(pub(crate) u64);
