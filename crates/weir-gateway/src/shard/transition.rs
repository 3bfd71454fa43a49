//! What one update is to the subscribers of an item, by what they are owed.

use std::sync::Arc;

use weir_mapping::FrozenValues;

use super::delivery::{DeliveryMode, PayloadSource};
use super::row_table::{RowChange, RowStep};

/// An update's way into an item: what subscribers get, and what those in step have seen before.
#[derive(Debug)]
pub(super) struct Transition {
    pub(super) event: Arc<FrozenValues>,
    pub(super) event_before: Option<Arc<FrozenValues>>,
    pub(super) state: Arc<FrozenValues>,
    pub(super) state_before: Option<Arc<FrozenValues>>,
    pub(super) row: Option<RowStep>,
}

/// What a step is to the subscribers of one delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Emission<'a> {
    /// What those in step have got afterwards.
    pub(super) values: &'a Arc<FrozenValues>,
    /// What they have got before.
    pub(super) before: Option<&'a Arc<FrozenValues>>,
    /// What those get who are not in step.
    pub(super) whole: &'a Arc<FrozenValues>,
    pub(super) row: Option<&'a RowChange>,
    /// Else it is what was there before: for those who wait for their snapshot, and as far as it
    /// changes what others have got.
    pub(super) is_live: bool,
}

impl Transition {
    /// What the subscribers of a delivery are told; `None` if that is nothing.
    pub(super) fn emission(&self, delivery: DeliveryMode) -> Option<Emission<'_>> {
        let (values, before) = match delivery.payload_source() {
            PayloadSource::Event => (&self.event, self.event_before.as_ref()),
            PayloadSource::State => (&self.state, self.state_before.as_ref()),
            PayloadSource::Row => {
                let Some(RowStep::Row(change)) = &self.row else {
                    return None;
                };
                return Some(Emission::of_row(change));
            }
        };
        Some(Emission {
            values,
            before,
            whole: values,
            row: None,
            is_live: true,
        })
    }
}

impl<'a> Emission<'a> {
    /// The same as no news.
    pub(super) fn as_backfill(self) -> Self {
        Self {
            is_live: false,
            ..self
        }
    }

    /// A change of a row.
    pub(super) fn of_row(change: &'a RowChange) -> Self {
        Self {
            values: &change.values,
            before: change.before.as_ref(),
            whole: &change.whole,
            row: Some(change),
            is_live: true,
        }
    }
}
