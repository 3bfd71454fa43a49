//! What the mode of a subscription means for its updates.

use weir_tlcp::request::{Add, BufferSize, Frequency, Mode};

/// What subscribers are owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum DeliveryMode {
    /// Every update as it came (RAW; DISTINCT, `unfiltered`): a field it does not have is null.
    Events,
    /// As events; of those that wait the oldest may be dropped (DISTINCT).
    List,
    /// The values after every update (MERGE, `unfiltered`).
    States,
    /// The newest values; older ones may be left out (MERGE).
    Newest,
    /// As newest, but several may wait (MERGE with a buffer size above 1).
    Buffered,
    /// Rows of a table; updates of a row that wait are merged (COMMAND).
    Rows,
    /// Rows of a table, every change of them (COMMAND, `unfiltered`).
    AllRows,
}

/// What the bytes of a delivery are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadSource {
    /// The update.
    Event,
    /// The values after it.
    State,
    /// The row it changes.
    Row,
}

/// How urgent a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueuePolicy {
    /// It is queued as bytes as long as there is any room.
    Always,
    /// Whoever has it waits while the client lags.
    Deferrable,
}

impl DeliveryMode {
    /// What a subscription request asks for.
    pub(super) fn of(add: &Add<'_>) -> Self {
        let unfiltered = add.requested_max_frequency == Frequency::Unfiltered;
        let one = matches!(
            add.requested_buffer_size,
            None | Some(BufferSize::Limited(0 | 1))
        );
        match (add.mode, unfiltered) {
            (Mode::Raw, _) | (Mode::Distinct, true) => Self::Events,
            (Mode::Distinct, false) => Self::List,
            (Mode::Merge, true) => Self::States,
            (Mode::Merge, false) if one => Self::Newest,
            (Mode::Merge, false) => Self::Buffered,
            (Mode::Command, false) => Self::Rows,
            (Mode::Command, true) => Self::AllRows,
        }
    }

    pub(super) fn payload_source(self) -> PayloadSource {
        match self {
            Self::Events | Self::List => PayloadSource::Event,
            Self::States | Self::Newest | Self::Buffered => PayloadSource::State,
            Self::Rows | Self::AllRows => PayloadSource::Row,
        }
    }

    /// Whether a snapshot that is asked for has an end that is told. (RAW has none at all.)
    pub(super) fn has_end_of_snapshot(self) -> bool {
        self.payload_source() != PayloadSource::State
    }

    /// Updates that may be merged or left out wait as values, not as bytes.
    pub(super) fn queue_policy(self) -> QueuePolicy {
        match self {
            Self::Events | Self::States | Self::AllRows => QueuePolicy::Always,
            Self::List | Self::Newest | Self::Buffered | Self::Rows => QueuePolicy::Deferrable,
        }
    }

    /// Whether no more waits than whatever is newest.
    pub(super) fn conflates_to_latest(self) -> bool {
        self == Self::Newest
    }

    /// Whether an update that changes nothing is sent.
    pub(super) fn sends_unchanged(self) -> bool {
        !matches!(self, Self::Newest | Self::Buffered)
    }
}
