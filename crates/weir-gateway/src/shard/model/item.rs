//! An item as the model expects it.

use std::collections::VecDeque;

use weir_mapping::FieldSet;

use super::rows::Rows;
use super::values::{KnownValues, ModelRow};

/// What the model knows of an item; forgotten when nobody is subscribed.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) known: KnownValues,
    /// While it has subscribers in mode COMMAND.
    pub(super) rows: Option<Rows>,
    /// Workers that have not told yet which rows they know.
    pub(super) pending_workers: usize,
    /// The last updates with the fields that were read, since somebody needs them.
    pub(super) history: Option<VecDeque<(ModelRow, FieldSet)>>,
    /// Workers that have not told yet which updates they know from before.
    pub(super) pending_history_workers: usize,
    /// Updates from before, as far as workers have told them, each with its instant.
    pub(super) told: Vec<(i64, ModelRow, FieldSet)>,
}

impl Item {
    /// The last updates that were read with these fields.
    pub(super) fn past(&self, wanted: &FieldSet) -> Vec<&ModelRow> {
        let history = self.history.iter().flatten();
        let read = history.filter(|(_, fields)| wanted.is_subset(fields));
        read.map(|(row, _)| row).collect()
    }
}
