//! State of an item in the model.

use std::collections::VecDeque;

use weir_mapping::FieldSet;

use super::rows::Rows;
use super::values::{KnownValues, ModelRow};

/// Expected state of an item; reset when it has no subscriber.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) known: KnownValues,
    /// Rows, while the item has subscribers in mode COMMAND.
    pub(super) rows: Option<Rows>,
    /// Number of workers that have not sent their rows yet.
    pub(super) pending_workers: usize,
    /// Last updates with the fields that were read, while a subscriber needs them.
    pub(super) history: Option<VecDeque<(ModelRow, FieldSet)>>,
    /// Number of workers that have not sent their earlier updates yet.
    pub(super) pending_history_workers: usize,
    /// Earlier updates that workers have sent, with their times.
    pub(super) backfill: Vec<(i64, ModelRow, FieldSet)>,
}

impl Item {
    /// Returns the last updates that were read with these fields.
    pub(super) fn past(&self, wanted: &FieldSet) -> Vec<&ModelRow> {
        let history = self.history.iter().flatten();
        let read = history.filter(|(_, fields)| wanted.is_subset(fields));
        read.map(|(row, _)| row).collect()
    }
}
