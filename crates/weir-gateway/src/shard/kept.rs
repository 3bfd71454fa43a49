//! What is kept of an item beyond its last values: for later subscribers in modes DISTINCT and COMMAND.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_mapping::{FieldSet, FrozenValues};

use super::schema::Schema;
use super::table::{RowStep, Table, TableCounts, TableRules};

/// What a subscriber needs to be kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keep {
    /// The current values, as of every item.
    Values,
    /// So many of the last updates.
    History(usize),
    /// The rows; so many workers may know some already.
    Rows(TableRules, usize),
}

/// What is kept of an item for later subscribers in modes DISTINCT and COMMAND.
#[derive(Debug, Default)]
pub(super) struct More {
    /// The last updates, with the fields that were read of them.
    history: VecDeque<(Arc<FrozenValues>, Arc<FieldSet>)>,
    /// How many of them.
    history_max: usize,
    pub(super) table: Option<Table>,
}

impl More {
    pub(super) fn advance(
        &mut self,
        event: &Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
        counts: &mut TableCounts,
    ) -> Option<RowStep> {
        if self.history_max > 0 {
            if self.history.len() >= self.history_max {
                self.history.pop_front();
            }
            self.history
                .push_back((Arc::clone(event), Arc::clone(extracted)));
        }
        self.table.as_mut()?.advance(event, extracted, counts)
    }

    /// Keeps so many of the last updates from now on, or as many as before if that is more; 0: none.
    pub(super) fn remember(&mut self, most: usize) {
        match most {
            0 => {
                self.history = VecDeque::new();
                self.history_max = 0;
            }
            most => self.history_max = self.history_max.max(most),
        }
    }

    /// The last updates with all fields of a schema, oldest first, at most so many.
    pub(super) fn history(&self, schema: &Schema, most: usize) -> Vec<Arc<FrozenValues>> {
        let newest = self.history.iter().rev();
        let read = newest.filter(|(_, fields)| schema.wanted().is_subset(fields));
        let values = read.take(most).map(|(values, _)| Arc::clone(values));
        let mut values: Vec<_> = values.collect();
        values.reverse();
        values
    }
}
