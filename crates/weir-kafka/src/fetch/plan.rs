//! Work that is due at one broker.

use std::sync::Arc;
use std::time::Instant;

use weir_wire::cluster::TopicId;

/// Index of a topic in its table, and partition.
pub(crate) type PartitionKey = (usize, i32);

/// Work at one broker.
#[derive(Debug, Default)]
pub(crate) struct FetchPlan {
    /// Partitions to fetch, in ascending order of their keys.
    pub(crate) fetches: Vec<PlannedFetch>,
    /// Positions to check first, because the leader has changed.
    pub(crate) checks: Vec<PlannedCheck>,
    /// Followers are not asked for: the leader would name one that has just failed.
    pub(crate) avoids_followers: bool,
    /// Time at which more work becomes due.
    pub(crate) wake_at: Option<Instant>,
}

/// One partition of a fetch request.
#[derive(Debug, Clone)]
pub(crate) struct PlannedFetch {
    pub(crate) key: PartitionKey,
    /// Number of the assignment; the result of a former one is ignored.
    pub(crate) generation: u64,
    pub(crate) topic: Arc<str>,
    pub(crate) topic_id: TopicId,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
}

/// One position to be checked.
#[derive(Debug, Clone)]
pub(crate) struct PlannedCheck {
    pub(crate) key: PartitionKey,
    pub(crate) generation: u64,
    pub(crate) topic: Arc<str>,
    pub(crate) leader_epoch: i32,
    /// Epoch of the last record read.
    pub(crate) epoch: i32,
}
