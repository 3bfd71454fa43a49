//! Requests to read records again, for clients that have missed them, and their results.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_fanout::{MissedUpdate, PartitionLayout, RecordPosition};
use weir_mapping::FieldSet;

/// Request of a shard for the records of one item.
#[derive(Debug)]
pub struct ReadBackRequest {
    /// Index of the shard.
    pub shard: u16,
    /// Number that the shard gives to the request.
    pub token: u64,
    /// Canonical name of the item, with its class of records.
    pub item: Arc<str>,
    /// Fields to extract.
    pub fields: FieldSet,
    /// Partitions of the connection.
    pub layout: Arc<PartitionLayout>,
    /// First offset of each partition.
    pub from: Arc<[i64]>,
    /// Offset after the last one of each partition; not above `from` if nothing is missed.
    pub to: Arc<[i64]>,
    /// Set if the client has gone.
    pub is_cancelled: Arc<AtomicBool>,
    /// Time of the request.
    pub since: Instant,
}

/// A record of an item that was read again.
#[derive(Debug, Clone)]
pub struct MissedRecord {
    /// Its position.
    pub position: RecordPosition,
    /// Its values.
    pub update: MissedUpdate,
}

/// Result of a request.
#[derive(Debug)]
pub struct ReadBackResult {
    /// Number of the request.
    pub token: u64,
    /// The records.
    pub outcome: ReadBackOutcome,
}

/// The records of the item in the order of each partition, which requests share, so that there may
/// be more than were requested; or the reason why they were not read.
pub type ReadBackOutcome = Result<Arc<[MissedRecord]>, ResetReason>;

/// Reason why a client gets a snapshot instead of the records that it has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetReason {
    /// The text is not an id.
    InvalidId,
    /// The id is of other partitions: of another Kafka connection, or of topics that were created
    /// again or have more partitions now.
    OtherPartitions,
    /// More records than the limit were written since.
    TooManyRecords,
    /// Some of the records do not exist any more.
    DeletedRecords,
    /// The id is of records that do not exist yet.
    UnknownRecords,
    /// Too many clients wait, or their records need too much memory.
    Busy,
    /// The brokers did not respond in time.
    Unavailable,
}

impl ResetReason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::InvalidId,
        Self::OtherPartitions,
        Self::TooManyRecords,
        Self::DeletedRecords,
        Self::UnknownRecords,
        Self::Busy,
        Self::Unavailable,
    ];

    /// Returns the reason as clients and metrics name it.
    pub fn label(self) -> &'static str {
        match self {
            Self::InvalidId => "invalid_id",
            Self::OtherPartitions => "other_partitions",
            Self::TooManyRecords => "too_many_records",
            Self::DeletedRecords => "deleted_records",
            Self::UnknownRecords => "unknown_records",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
        }
    }
}
