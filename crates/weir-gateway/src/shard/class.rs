//! Frame classes: subscribers of an item that share schema, subscription number, position,
//! delivery and diffs.
//! They receive the same bytes, which are encoded once. Typical clients (one subscription, one item)
//! all fall into one class.

use std::sync::Arc;

use weir_tlcp::diff::DiffSettings;

use super::delivery::{DeliveryMode, PayloadSource};
use super::diffs::ClassDiffs;
use super::keys::SessionKey;
use super::schema::FieldSchema;
use super::work::visit;

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
    pub(super) state: MemberState,
    /// A frequency limit holds.
    pub(super) has_frequency_limit: bool,
    /// Its snapshot is not complete: values nobody here knows yet, or the rows' end of snapshot.
    pub(super) awaits_snapshot: bool,
}

/// What a subscriber has got of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberState {
    /// Nothing that changes could refer to: the next update goes out whole.
    New,
    /// The last update, so that it can be sent changes only.
    UpToDate,
    /// Something older: what it has not got waits in the backlog.
    Lagging,
}

impl ClassMember {
    /// Whether it gets what was there before the shard wanted it; `changes` tells that it changes
    /// what others have got. A row it is not told leaves it behind what others have got last.
    pub(super) fn wants_backfill(&mut self, delivery: DeliveryMode, changes: bool) -> bool {
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
    pub(super) fn require_full(&mut self) {
        for member in &mut self.members {
            if member.state == MemberState::UpToDate {
                member.state = MemberState::New;
            }
        }
    }
}
