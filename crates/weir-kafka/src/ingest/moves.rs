//! Positions that librdkafka could not fetch from. It stops reading such a partition and does not
//! say which one it was: discovery compares all positions with the partitions' offsets, and the
//! reader, which alone knows whether a position has changed meanwhile, moves them.

use super::offsets::Offsets;

/// One partition to be read from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// The position that was checked; if it has changed since, the move is void.
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
            "position is not in the partition any more"
        );
    }
}

/// Positions on their way to discovery, and moves on their way back.
#[derive(Debug, Default)]
pub(super) struct Moves {
    doubtful: Option<Offsets>,
    decided: Vec<Move>,
}

impl Moves {
    /// Asks for a check of all positions; the newest replace those that wait.
    pub(super) fn doubt(&mut self, positions: Offsets) {
        self.doubtful = Some(positions);
    }

    /// Hands positions back that could not be checked, unless newer ones wait.
    pub(super) fn doubt_again(&mut self, positions: Offsets) {
        self.doubtful.get_or_insert(positions);
    }

    pub(super) fn take_doubtful(&mut self) -> Option<Offsets> {
        self.doubtful.take()
    }

    pub(super) fn decide(&mut self, moves: Vec<Move>) {
        self.decided.extend(moves);
    }

    pub(super) fn take_decided(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.decided)
    }
}
