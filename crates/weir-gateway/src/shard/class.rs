//! Frame classes: subscribers of an item with the same field schema, subscription number, position,
//! delivery mode and diffs.
//!
//! They receive the same bytes, which are encoded once. Typical clients, with one subscription to
//! one item, are all in one class.

use std::cell::RefCell;
use std::sync::Arc;

use weir_mapping::FieldSet;
use weir_tlcp::diff::DiffOptions;

use super::delivery_mode::{DeliveryMode, PayloadSource};
use super::keys::{ItemAt, SessionKey};
use super::schema::FieldSchema;
use super::work::visit;

/// Subscribers that receive identical bytes.
#[derive(Debug)]
pub(super) struct FrameClass {
    pub(super) schema: Arc<FieldSchema>,
    pub(super) sub_id: u32,
    pub(super) position: u32,
    pub(super) delivery: DeliveryMode,
    /// Diffs of the class; `None` if its members accept none.
    pub(super) diffs: Option<Box<ClassDiffs>>,
    pub(super) members: Vec<ClassMember>,
    /// Member at which the next fan-out starts, so that no client is always last.
    pub(super) start: usize,
}

#[derive(Debug)]
pub(super) struct ClassDiffs {
    pub(super) options: Arc<DiffOptions>,
    /// Positions, from 0, of fields of which some member may have received a JSON Patch, so that
    /// they may not get a TLCP-diff. Positions are never removed, because members may have received
    /// values of different updates. It is a cell because the class is borrowed while its members
    /// change.
    pub(super) patched: RefCell<FieldSet>,
}

impl ClassDiffs {
    pub(super) fn new(options: &Arc<DiffOptions>) -> Self {
        Self {
            options: Arc::clone(options),
            patched: RefCell::new(FieldSet::empty()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ClassKey<'a> {
    pub(super) schema: &'a Arc<FieldSchema>,
    pub(super) sub_id: u32,
    pub(super) position: u32,
    pub(super) delivery: DeliveryMode,
    pub(super) diffs: Option<&'a Arc<DiffOptions>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClassMember {
    pub(super) session: SessionKey,
    pub(super) state: MemberState,
    pub(super) has_frequency_limit: bool,
    /// `true` while the snapshot is incomplete: values that are not known yet, or the end of the
    /// snapshot of rows.
    pub(super) awaits_snapshot: bool,
    /// `true` if the rows were sent again while rows of a worker were outstanding: the member needs
    /// these too, although it may have requested no snapshot.
    pub(super) awaits_rows: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberState {
    /// Nothing to which a delta could refer: the next update is sent with all fields.
    New,
    /// The last update, so that a delta can be sent.
    UpToDate,
    /// An older update. Newer ones are queued in the backlog.
    Lagging,
}

impl ClassMember {
    /// Returns `true` if the member receives a backfill. `changes` is `true` if the backfill
    /// changes values that members may have received. A member that does not receive a row gets the
    /// next update with all fields, because its last values differ from those of the class.
    pub(super) fn wants_backfill(&mut self, delivery: DeliveryMode, changes: bool) -> bool {
        if self.awaits_rows {
            return true;
        }
        if self.awaits_snapshot
            || (delivery.payload_source() == PayloadSource::State && self.state != MemberState::New)
        {
            return self.awaits_snapshot || changes;
        }
        if self.state == MemberState::UpToDate {
            self.state = MemberState::New;
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
            diffs: key.diffs.map(|options| Box::new(ClassDiffs::new(options))),
            members: Vec::new(),
            start: 0,
        }
    }

    pub(super) fn at(&self) -> ItemAt {
        (self.sub_id, self.position)
    }

    pub(super) fn key(&self) -> ClassKey<'_> {
        ClassKey {
            schema: &self.schema,
            sub_id: self.sub_id,
            position: self.position,
            delivery: self.delivery,
            diffs: self.diffs.as_ref().map(|diffs| &diffs.options),
        }
    }

    pub(super) fn is(&self, key: ClassKey<'_>) -> bool {
        visit();
        self.sub_id == key.sub_id
            && self.position == key.position
            && self.delivery == key.delivery
            && Arc::ptr_eq(&self.schema, key.schema)
            && match (&self.diffs, key.diffs) {
                (Some(own), Some(options)) => Arc::ptr_eq(&own.options, options),
                (own, options) => own.is_none() && options.is_none(),
            }
    }

    /// Makes the next update a full one for all members. An update without all fields of this class
    /// was skipped, so the members have not received the item's last update.
    pub(super) fn require_full(&mut self) {
        for member in &mut self.members {
            if member.state == MemberState::UpToDate {
                member.state = MemberState::New;
            }
        }
    }
}
