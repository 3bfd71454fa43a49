//! A subscription to items, as a session stores it.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_tlcp::diff::DiffOptions;

use super::class::ClassKey;
use super::delivery_mode::DeliveryMode;
use super::frequency::FrequencyLimit;
use super::keys::MemberSlot;
use super::schema::FieldSchema;

#[derive(Debug)]
pub(super) struct ItemSubscription {
    pub(super) connection: u16,
    pub(super) schema: Arc<FieldSchema>,
    pub(super) delivery: DeliveryMode,
    pub(super) diffs: Option<Arc<DiffOptions>>,
    pub(super) frequency_limit: Option<Box<FrequencyLimit>>,
    /// One entry per item of the group; `None` for an item that no template matches.
    pub(super) slots: SmallVec<[Option<MemberSlot>; 1]>,
    /// Bytes that are charged to the client's address for this subscription.
    pub(super) charged: u32,
}

impl ItemSubscription {
    pub(super) fn class(&self, sub_id: u32, position: u32) -> ClassKey<'_> {
        ClassKey {
            schema: &self.schema,
            sub_id,
            position,
            delivery: self.delivery,
            diffs: self.diffs.as_ref(),
        }
    }
}
