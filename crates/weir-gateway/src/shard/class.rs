//! Frame classes: subscribers of an item that share schema, subscription number, position,
//! delivery and diffs.
//! They receive the same bytes, which are encoded once. Typical clients (one subscription, one item)
//! all fall into one class.

use std::sync::Arc;

use weir_tlcp::diff::DiffSettings;
use weir_tlcp::request::{Add, BufferSize, Frequency, Mode};

use super::diffs::ClassDiffs;
use super::schema::FieldSchema;
use super::session::SessionKey;
use super::session_writer::QueuePolicy;
use super::work::visit;

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

    pub(super) fn basis(self) -> PayloadSource {
        match self {
            Self::Events | Self::List => PayloadSource::Event,
            Self::States | Self::Newest | Self::Buffered => PayloadSource::State,
            Self::Rows | Self::AllRows => PayloadSource::Row,
        }
    }

    /// Whether a snapshot that is asked for has an end that is told. (RAW has none at all.)
    pub(super) fn has_end_of_snapshot(self) -> bool {
        self.basis() != PayloadSource::State
    }

    /// Updates that may be merged or left out wait as values, not as bytes.
    pub(super) fn urgency(self) -> QueuePolicy {
        match self {
            Self::Events | Self::States | Self::AllRows => QueuePolicy::Must,
            Self::List | Self::Newest | Self::Buffered | Self::Rows => QueuePolicy::CanWait,
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

/// Subscribers that get the same bytes.
#[derive(Debug)]
pub(super) struct FrameClass {
    pub(super) schema: Arc<FieldSchema>,
    pub(super) sub_id: u32,
    /// The item's position in the subscription, from 1.
    pub(super) position: u32,
    pub(super) delivery: DeliveryMode,
    /// `None` if its members get none.
    pub(super) diffs: Option<Box<ClassDiffs>>,
    pub(super) members: Vec<ClassMember>,
    /// Where the next pass begins, so that no client is always the last one.
    pub(super) start: usize,
}

/// What tells a class of an item from the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassKey<'a> {
    pub(super) schema: &'a Arc<FieldSchema>,
    pub(super) sub_id: u32,
    pub(super) position: u32,
    pub(super) delivery: DeliveryMode,
    pub(super) diffs: Option<&'a Arc<DiffSettings>>,
}

/// One subscriber in a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClassMember {
    pub(super) session: SessionKey,
    pub(super) progress: MemberState,
    /// A frequency limit holds.
    pub(super) paced: bool,
    /// Its snapshot is not complete: values nobody here knows yet, or the rows' end of snapshot.
    pub(super) awaits: bool,
}

/// What a subscriber has got of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberState {
    /// Nothing that changes could refer to: the next update goes out whole.
    New,
    /// The last update, so that it can be sent changes only.
    InStep,
    /// Something older: what it has not got waits in the backlog.
    Behind,
}

/// Where a subscription's item stands in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberSlot {
    pub(super) slot: u32,
    /// Index in the class's member list; changes when another member leaves.
    pub(super) member: u32,
}

impl ClassMember {
    /// Whether it gets what was there before the shard wanted it; `changes` tells that it changes
    /// what others have got. A row it is not told leaves it behind what others have got last.
    pub(super) fn wants_backfill(&mut self, delivery: DeliveryMode, changes: bool) -> bool {
        if self.awaits
            || (delivery.basis() == PayloadSource::State && self.progress != MemberState::New)
        {
            return self.awaits || changes;
        }
        if self.progress == MemberState::InStep {
            self.progress = MemberState::New;
        }
        false
    }
}

impl FrameClass {
    pub(super) fn new(key: ClassKey<'_>) -> Self {
        Self {
            schema: Arc::clone(key.schema),
            sub_id: key.sub_id,
            position: key.position,
            delivery: key.delivery,
            diffs: key
                .diffs
                .map(|settings| Box::new(ClassDiffs::new(settings))),
            members: Vec::new(),
            start: 0,
        }
    }

    pub(super) fn key(&self) -> ClassKey<'_> {
        ClassKey {
            schema: &self.schema,
            sub_id: self.sub_id,
            position: self.position,
            delivery: self.delivery,
            diffs: self.diffs.as_ref().map(|diffs| &diffs.settings),
        }
    }

    pub(super) fn is(&self, key: ClassKey<'_>) -> bool {
        visit();
        self.sub_id == key.sub_id
            && self.position == key.position
            && self.delivery == key.delivery
            && Arc::ptr_eq(&self.schema, key.schema)
            && match (&self.diffs, key.diffs) {
                (Some(own), Some(settings)) => Arc::ptr_eq(&own.settings, settings),
                (own, settings) => own.is_none() && settings.is_none(),
            }
    }

    /// An update went by without all fields of this class. What its members have seen is no longer
    /// the item's last update, so the next one goes out whole.
    pub(super) fn miss(&mut self) {
        for member in &mut self.members {
            if member.progress == MemberState::InStep {
                member.progress = MemberState::New;
            }
        }
    }
}
