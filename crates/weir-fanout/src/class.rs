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
use super::events::{EventEncoder, EventForm};
use super::keys::{ItemAt, SessionKey};
use super::schema::FieldSchema;
use super::work::visit;

/// Subscribers that receive identical bytes.
#[derive(Debug)]
pub(crate) struct FrameClass {
    pub(crate) schema: Arc<FieldSchema>,
    pub(crate) sub_id: u32,
    pub(crate) position: u32,
    pub(crate) delivery: DeliveryMode,
    /// Diffs of the class; `None` if its members accept none.
    pub(crate) diffs: Option<Box<ClassDiffs>>,
    form: Option<EventForm>,
    /// Encoder of a class that receives events instead of TLCP lines.
    pub(crate) events: Option<Box<EventEncoder>>,
    pub(crate) members: Vec<ClassMember>,
    /// Index of the member at which the next fan-out starts, so that no client is always last.
    pub(crate) start: usize,
}

#[derive(Debug)]
pub(crate) struct ClassDiffs {
    pub(crate) options: Arc<DiffOptions>,
    /// Positions, from 0, of fields of which some member may have received a JSON Patch, so that
    /// they may not get a TLCP-diff. Positions are never removed, because members may have received
    /// values of different updates. It is a cell because the class is borrowed while its members
    /// change.
    pub(crate) patched: RefCell<FieldSet>,
}

impl ClassDiffs {
    pub(crate) fn new(options: &Arc<DiffOptions>) -> Self {
        Self {
            options: Arc::clone(options),
            patched: RefCell::new(FieldSet::empty()),
        }
    }
}

/// Identity of a frame class within an item.
#[derive(Debug, Clone, Copy)]
pub struct ClassKey<'a> {
    /// Fields of the subscription.
    pub schema: &'a Arc<FieldSchema>,
    /// Number of the subscription within its session.
    pub sub_id: u32,
    /// Position of the item in the subscription, from 1.
    pub position: u32,
    /// Updates that the subscriber receives.
    pub delivery: DeliveryMode,
    /// Diffs that the client accepts; `None` means no diffs.
    pub diffs: Option<&'a Arc<DiffOptions>>,
    /// Form of the events that the client receives; `None` for TLCP lines.
    pub form: Option<EventForm>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassMember {
    pub(crate) session: SessionKey,
    pub(crate) state: MemberState,
    pub(crate) has_frequency_limit: bool,
    /// `true` while the snapshot is incomplete: values, or the end of the snapshot of rows, are
    /// outstanding.
    pub(crate) awaits_snapshot: bool,
    /// `true` if the rows were sent again before a worker had sent its stored rows. The member then
    /// needs those too, even if it requested no snapshot.
    pub(crate) awaits_rows: bool,
}

/// The updates that a member has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberState {
    /// None to which a delta could refer: the next update is sent with all fields.
    New,
    /// All, so that the next one can be sent as a delta.
    UpToDate,
    /// Not the newest ones, which are queued in the backlog.
    Lagging,
    /// All, but on an earlier connection: the next one is sent with all fields, as an update and
    /// not as a snapshot.
    Resumed,
}

impl ClassMember {
    /// Returns `true` if the member receives a backfill. `changes` is `true` if the backfill
    /// changes values that members may have received. A member that does not receive a row gets the
    /// next update with all fields, because its last values differ from those of the class.
    pub(crate) fn wants_backfill(&mut self, delivery: DeliveryMode, changes: bool) -> bool {
        if self.awaits_rows {
            return true;
        }
        if self.state == MemberState::Resumed {
            return false;
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
    /// Creates a class of the item that clients know by the name `item`.
    pub(crate) fn new(key: ClassKey<'_>, item: &str) -> Self {
        let encoder = |form| Box::new(EventEncoder::new(form, item, key.schema));
        Self {
            form: key.form,
            events: key.form.map(encoder),
            schema: Arc::clone(key.schema),
            sub_id: key.sub_id,
            position: key.position,
            delivery: key.delivery,
            diffs: key.diffs.map(|options| Box::new(ClassDiffs::new(options))),
            members: Vec::new(),
            start: 0,
        }
    }

    pub(crate) fn at(&self) -> ItemAt {
        (self.sub_id, self.position)
    }

    pub(crate) fn key(&self) -> ClassKey<'_> {
        ClassKey {
            schema: &self.schema,
            sub_id: self.sub_id,
            position: self.position,
            delivery: self.delivery,
            diffs: self.diffs.as_ref().map(|diffs| &diffs.options),
            form: self.form,
        }
    }

    pub(crate) fn is(&self, key: ClassKey<'_>) -> bool {
        visit();
        self.sub_id == key.sub_id
            && self.position == key.position
            && self.delivery == key.delivery
            && self.form == key.form
            && Arc::ptr_eq(&self.schema, key.schema)
            && match (&self.diffs, key.diffs) {
                (Some(own), Some(options)) => Arc::ptr_eq(&own.options, options),
                (own, options) => own.is_none() && options.is_none(),
            }
    }

    /// Makes the next update a full one for all members. An update without all fields of this class
    /// was skipped, so the members have not received the item's last update.
    pub(crate) fn require_full(&mut self) {
        for member in &mut self.members {
            if member.state == MemberState::UpToDate {
                member.state = MemberState::New;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its connection and its places in the item table, a session must stay below 1 KiB.
    #[test]
    fn class_member_stays_small() {
        assert_eq!(size_of::<ClassMember>(), 12);
    }
}
