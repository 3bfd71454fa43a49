//! Results of `weir gateway explain`.

use weir_mapping::{CanonicalItem, ConnectionConfig, Explanation};

/// Delivery of a record by one Kafka connection.
pub(super) struct RecordExplanation<'a> {
    pub(super) connection: &'a ConnectionConfig,
    pub(super) explanation: Explanation,
    /// Result for the item given with `--item`.
    pub(super) item: Option<ItemExplanation>,
}

/// Result of the search for a record that is delivered to an item.
pub(super) struct LookBackResult {
    pub(super) item: CanonicalItem,
    /// Number of records read.
    pub(super) read: u64,
    /// `true` if one of them is delivered to the item.
    pub(super) reached: bool,
    /// `true` if the topic has no older records.
    pub(super) is_whole: bool,
}

/// Delivery of a record to one item.
pub(super) struct ItemExplanation {
    /// Item name in canonical form.
    pub(super) item: CanonicalItem,
    /// `true` if clients can subscribe to the item.
    pub(super) is_admitted: bool,
    /// `true` if the record maps to the item.
    pub(super) is_reached: bool,
}

impl RecordExplanation<'_> {
    /// Returns `true` if subscribers receive the record.
    pub(super) fn is_delivered(&self) -> bool {
        let items = self.explanation.items.as_ref();
        let reached = match &self.item {
            Some(item) => item.is_reached,
            None => items.is_ok_and(|items| !items.is_empty()),
        };
        self.connection.enabled && reached && self.explanation.fields_error.is_none()
    }
}
