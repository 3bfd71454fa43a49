//! Delivery modes: what the subscription mode and limits mean for updates.

use weir_tlcp::request::{Add, BufferSize, Frequency, Mode};

/// Updates that a subscriber receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DeliveryMode {
    /// Every update as it was extracted (RAW; DISTINCT, `unfiltered`). An absent field is null.
    #[default]
    Events,
    /// As `Events`, but the oldest queued update may be dropped (DISTINCT).
    List,
    /// The item's values after every update (MERGE, `unfiltered`).
    States,
    /// The latest values; older ones may be conflated (MERGE).
    Newest,
    /// As `Newest`, but several updates may be queued (MERGE with a buffer size above 1).
    Buffered,
    /// Rows of a table; queued updates of one row are merged (COMMAND).
    Rows,
    /// Rows of a table, with every change (COMMAND, `unfiltered`).
    AllRows,
}

/// Values from which the bytes of an update are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadSource {
    /// Values of the update.
    Event,
    /// Values of the item after the update.
    State,
    /// Values of the row that the update changes.
    Row,
}

/// Treatment of a frame while its client lags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePolicy {
    /// The frame is queued as bytes as long as the send queue has capacity.
    Always,
    /// The values are queued in the backlog while the client lags.
    Deferrable,
}

impl DeliveryMode {
    /// Returns the delivery mode of a subscription request.
    pub fn of(add: &Add<'_>) -> Self {
        let unfiltered = add.requested_max_frequency == Frequency::Unfiltered;
        let buffer = add.requested_buffer_size;
        let one = matches!(buffer, None | Some(BufferSize::Limited(0 | 1)));
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

    pub(crate) fn payload_source(self) -> PayloadSource {
        match self {
            Self::Events | Self::List => PayloadSource::Event,
            Self::States | Self::Newest | Self::Buffered => PayloadSource::State,
            Self::Rows | Self::AllRows => PayloadSource::Row,
        }
    }

    /// Returns `true` if the end of a requested snapshot is sent. RAW has no snapshot at all.
    pub fn has_end_of_snapshot(self) -> bool {
        self.payload_source() != PayloadSource::State
    }

    /// Returns the queue policy. Updates that may be merged or dropped are queued as values, not as
    /// bytes.
    pub(crate) fn queue_policy(self) -> QueuePolicy {
        match self {
            Self::Events | Self::States | Self::AllRows => QueuePolicy::Always,
            Self::List | Self::Newest | Self::Buffered | Self::Rows => QueuePolicy::Deferrable,
        }
    }

    pub(crate) fn conflates_to_latest(self) -> bool {
        self == Self::Newest
    }

    /// Returns `true` if updates that change nothing are sent.
    pub(crate) fn sends_unchanged(self) -> bool {
        !matches!(self, Self::Newest | Self::Buffered)
    }
}
