//! Operations of a Kafka client that ingest is built on. librdkafka and Weir's own client have
//! them. Records are taken from the client itself, because only their form differs.

use thiserror::Error;

use super::error::SourceError;
use super::offsets::Offsets;
use crate::connect_error::ConnectError;

/// Topic name and partition.
pub(super) type TopicPartition = (String, i32);

/// Offset of a partition, or the reason why it is not known.
pub(super) type FoundOffset = (TopicPartition, Result<i64, RequestError>);

/// Offset committed under the group id; `None` if there is none.
pub(super) type Committed = (TopicPartition, Option<i64>);

/// Offset by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OffsetAt {
    /// Of the oldest record.
    Beginning,
    /// After the latest record that would be delivered.
    End,
}

/// Reason why a request failed; a later one may succeed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(super) struct RequestError(String);

impl RequestError {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// Creates an error from another one.
    pub(super) fn of(error: impl ToString) -> Self {
        Self(error.to_string())
    }
}

impl From<ConnectError> for RequestError {
    fn from(error: ConnectError) -> Self {
        Self::of(error)
    }
}

/// Brokers and topics, as one broker reports them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ClusterView {
    /// Host and port of each broker.
    pub(super) brokers: Vec<(String, u16)>,
    pub(super) topics: Vec<TopicView>,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicView {
    pub(super) name: String,
    /// Topic id; 0 if the client does not report it.
    pub(super) id: u128,
    /// Number of partitions; `None` if the topic does not exist.
    pub(super) partitions: Result<Option<i32>, RequestError>,
}

/// A Kafka client that reads assigned partitions in the background.
pub(super) trait PartitionClient: Send + Sync {
    /// Requests brokers, and one topic or all of them. Creates no topic.
    fn cluster(&self, topic: Option<&str>) -> Result<ClusterView, RequestError>;

    /// Returns `true` if [`cluster`](Self::cluster) reports topic ids.
    fn has_topic_ids(&self) -> bool;

    /// Returns the topics that cannot be read on, because others have their names now.
    fn replaced(&self) -> Vec<String>;

    /// Requests an offset of each partition from its leader.
    fn offsets(&self, partitions: &[TopicPartition], at: OffsetAt) -> Vec<FoundOffset>;

    /// Requests the offsets that are committed under the group id.
    fn committed(&self, partitions: &[TopicPartition]) -> Result<Vec<Committed>, RequestError>;

    /// Stores offsets under the group id and waits for the result.
    fn commit(&self, offsets: &Offsets) -> Result<(), RequestError>;

    /// Begins to read partitions at their start offsets.
    fn assign(&self, starts: &[(TopicPartition, i64)]) -> Result<(), SourceError>;

    /// Stops reading partitions. Their records are not delivered any more.
    fn unassign(&self, partitions: &[TopicPartition]) -> Result<(), SourceError>;
}
