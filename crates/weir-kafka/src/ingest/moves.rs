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

/// Reason why a position became invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveReason {
    /// Its record does not exist (any more).
    OutOfRange,
    /// The leader of the partition lacks records before it.
    Truncated,
}

/// Logs a move; `left_out` warnings were not logged before.
pub(super) fn log_move(one: &Move, reason: MoveReason, left_out: u64) {
    let text = match reason {
        MoveReason::OutOfRange => "position out of range, continuing at another offset",
        MoveReason::Truncated => "leader lost records that were read, continuing at its end",
    };
    tracing::warn!(
        topic = one.topic,
        partition = one.partition,
        position = one.from,
        continues_at = one.to,
        warnings_left_out = left_out,
        "{text}"
    );
}

/// Positions that were not checked yet, for discovery, and moves for the reader.
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub(super) unchecked: Option<Offsets>,
    pub(super) decided: Vec<Move>,
}
