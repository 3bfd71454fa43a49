//! State of ingest and of its topics, as reported to callers.

use std::time::Duration;

use crate::connect_error::ConnectError;

/// Status of a source, as far as it is known without a request to a broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceStatus {
    /// Brokers respond, every topic exists, and every known partition has a start offset: all
    /// records produced from now on will be delivered.
    pub ready: bool,
    /// Reason why the source is not ready. If it is ready: reason why the latest commit failed.
    pub problem: Option<String>,
    /// One entry per configured topic, in configured order.
    pub topics: Vec<TopicStatus>,
    /// Latest error text; not cleared on recovery.
    pub last_error: Option<String>,
    /// Failed login or rejected certificate, until a broker responds.
    pub refused: Option<ConnectError>,
    /// Logins that a broker rejected.
    pub login_failures: u64,
    /// TLS handshakes that failed.
    pub tls_failures: u64,
    /// Errors since start.
    pub errors: u64,
    /// Number of positions that became invalid, because the topic was created again or truncated,
    /// or because retention removed records before they were read.
    pub resets: u64,
    /// Of these, positions after records that a new leader did not have.
    pub truncations: u64,
    /// Responses with which a broker asked for a pause because of a quota. Only the lean client
    /// counts them.
    pub throttled: u64,
    /// These pauses together.
    pub throttle_time: Duration,
    /// Partitions that the lean client reads from followers.
    pub on_followers: usize,
    /// Offset commits that brokers confirmed.
    pub commits: u64,
    /// Offset commits that failed.
    pub commit_errors: u64,
    /// Headers that were skipped because their names are not UTF-8.
    pub headers_skipped: u64,
}

/// One topic of [`SourceStatus`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicStatus {
    /// Topic name.
    pub topic: String,
    /// The topic existed at the last lookup.
    pub exists: bool,
    /// Partitions with a start offset.
    pub partitions: usize,
}

/// Lag of the reader in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLag {
    /// Topic name.
    pub topic: String,
    /// Partition of that topic.
    pub partition: i32,
    /// Next offset to be delivered.
    pub position: i64,
    /// End of the partition as last reported by its leader, at most a few seconds old; `None` if it
    /// is not known.
    pub end: Option<i64>,
}

impl PartitionLag {
    /// Returns the number of records between position and end, or `None` if the end is not known.
    pub fn records(&self) -> Option<u64> {
        let end = self.end?;
        Some(u64::try_from(end.saturating_sub(self.position)).unwrap_or(0))
    }
}
