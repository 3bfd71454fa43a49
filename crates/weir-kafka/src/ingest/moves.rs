//! Positions that librdkafka could not fetch from. It stops reading such a partition and does not
//! report which one it was. So discovery compares all positions with the partitions' bounds, and
//! the reader, which knows whether a position has changed since, moves them.

use super::offsets::Offsets;

/// A change of the position of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// Position that was checked. If it has changed since, the move is ignored.
    pub(super) from: i64,
    pub(super) to: i64,
}

pub(super) fn log_move(topic: &str, partition: i32, position: i64, continues_at: i64) {
    tracing::warn!(
        topic,
        partition,
        position,
        continues_at,
        "position out of range, continuing at another offset"
    );
}

/// Positions that were not checked yet, for discovery, and moves for the reader.
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub(super) unchecked: Option<Offsets>,
    pub(super) decided: Vec<Move>,
}
