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

impl Move {
    pub(super) fn log(&self) {
        let Self {
            topic,
            partition,
            from,
            to,
        } = self;
        tracing::warn!(
            topic,
            partition,
            position = from,
            continues_at = to,
            "position out of range, continuing at another offset"
        );
    }
}

/// Unchecked positions for discovery, and moves for the reader.
#[derive(Debug, Default)]
pub(super) struct Moves {
    unchecked: Option<Offsets>,
    decided: Vec<Move>,
}

impl Moves {
    /// Requests a check of all positions; replaces positions that were not checked yet.
    pub(super) fn set_unchecked(&mut self, positions: Offsets) {
        self.unchecked = Some(positions);
    }

    /// Returns positions that could not be checked, unless newer ones were set.
    pub(super) fn return_unchecked(&mut self, positions: Offsets) {
        self.unchecked.get_or_insert(positions);
    }

    pub(super) fn take_unchecked(&mut self) -> Option<Offsets> {
        self.unchecked.take()
    }

    pub(super) fn add_moves(&mut self, moves: Vec<Move>) {
        self.decided.extend(moves);
    }

    pub(super) fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.decided)
    }
}
