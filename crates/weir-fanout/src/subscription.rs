//! A subscription to items, as a session stores it.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_tlcp::diff::DiffOptions;

use super::class::ClassKey;
use super::delivery_mode::DeliveryMode;
use super::events::EventForm;
use super::frequency::FrequencyLimit;
use super::keys::MemberSlot;
use super::schema::FieldSchema;

/// Fields, mode, limits and items of a subscription.
#[derive(Debug)]
pub struct ItemSubscription {
    /// Number of the Kafka connection.
    pub connection: u16,
    /// Fields of the subscription.
    pub schema: Arc<FieldSchema>,
    /// Updates that the client receives.
    pub delivery: DeliveryMode,
    /// Diffs that the client accepts; `None` means no diffs.
    pub diffs: Option<Arc<DiffOptions>>,
    /// Form of the events that the client receives; `None` for TLCP lines.
    pub form: Option<EventForm>,
    /// Limits that the client has requested.
    pub frequency_limit: Option<Box<FrequencyLimit>>,
    /// One entry per item of the group; `None` for an item that no template matches.
    pub slots: SmallVec<[Option<MemberSlot>; 1]>,
    /// Bytes that are charged to the client's address for this subscription.
    pub charged: u32,
}

impl ItemSubscription {
    /// Returns the frame class of the item at `position`, from 1.
    pub fn class(&self, sub_id: u32, position: u32) -> ClassKey<'_> {
        ClassKey {
            schema: &self.schema,
            sub_id,
            position,
            delivery: self.delivery,
            diffs: self.diffs.as_ref(),
            form: self.form,
        }
    }
}
