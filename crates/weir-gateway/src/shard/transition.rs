//! The effect of one update on an item and on its subscribers, by delivery mode.

use std::sync::Arc;

use weir_mapping::FrozenValues;

use super::delivery::{DeliveryMode, PayloadSource};
use super::row_table::{RowChange, RowStep};

/// State change of an item: the values that subscribers receive, and those they received before.
#[derive(Debug)]
pub(super) struct Transition {
    pub(super) event: Arc<FrozenValues>,
    pub(super) event_before: Option<Arc<FrozenValues>>,
    pub(super) state: Arc<FrozenValues>,
    pub(super) state_before: Option<Arc<FrozenValues>>,
    pub(super) row: Option<RowStep>,
}

/// A transition as seen by the subscribers of one delivery mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Emission<'a> {
    /// Values of up-to-date members after the transition.
    pub(super) values: &'a Arc<FrozenValues>,
    /// Values of up-to-date members before the transition.
    pub(super) before: Option<&'a Arc<FrozenValues>>,
    /// Values for members that are not up to date.
    pub(super) whole: &'a Arc<FrozenValues>,
    pub(super) row: Option<&'a RowChange>,
    /// `false` for a backfill. It goes only to members that wait for their snapshot, and to members
    /// whose values it changes.
    pub(super) is_live: bool,
}

impl Transition {
    /// Returns what the subscribers of a delivery mode receive; `None` if that is nothing.
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
    /// Returns the emission as a backfill.
    pub(super) fn as_backfill(self) -> Self {
        Self {
            is_live: false,
            ..self
        }
    }

    /// Returns the emission of a row change.
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
