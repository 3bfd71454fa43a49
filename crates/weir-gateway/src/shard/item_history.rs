//! What is kept of an item beyond its last values: for later subscribers in modes DISTINCT and COMMAND.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_mapping::{FieldSet, FrozenValues};

use super::row_table::{RowStep, RowTable, RowTableCounters};
use super::schema::FieldSchema;
use crate::interest::{HistoryInterest, RowTableConfig};

/// What a subscriber needs to be kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Retention {
    /// The current values, as of every item.
    Values,
    /// So many of the last updates; so many workers may know some already.
    History(usize, usize),
    /// The rows; so many workers may know some already.
    Rows(RowTableConfig, usize),
}

/// What is kept of an item for later subscribers in modes DISTINCT and COMMAND.
#[derive(Debug, Default)]
pub(super) struct ItemHistory {
    pub(super) history: UpdateHistory,
    pub(super) table: Option<RowTable>,
}

impl ItemHistory {
    pub(super) fn advance(
        &mut self,
        event: &Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
        counts: &mut RowTableCounters,
    ) -> Option<RowStep> {
        self.history.push(event, extracted);
        self.table.as_mut()?.advance(event, extracted, counts)
    }
}

/// The last updates of an item.
#[derive(Debug, Default)]
pub(super) struct UpdateHistory {
    /// The updates, with the fields that were read of them.
    updates: VecDeque<(Arc<FrozenValues>, Arc<FieldSet>)>,
    /// Updates that are kept; 0: none.
    most: usize,
    /// Distinguishes it from others of the same item, before or after it.
    generation: u32,
    /// Other event loops may have had updates before it began.
    is_shared: bool,
    /// Ingest workers that have not answered yet.
    pending_workers: usize,
    /// Updates from before, as far as workers have answered.
    backfill: Vec<PastUpdate>,
}

/// An update from before an event loop kept a history of its item.
#[derive(Debug, Clone)]
pub(crate) struct PastUpdate {
    pub(crate) values: Arc<FrozenValues>,
    /// The fields that were read.
    pub(crate) fields: Arc<FieldSet>,
    /// When the record was written; -1 if unknown.
    pub(crate) record_ms: i64,
}

impl UpdateHistory {
    /// Keeps up to `most` updates from now on. Returns `true` if none were kept before, so that
    /// `workers` are to be asked for those from before.
    pub(super) fn begin(&mut self, most: usize, generation: u32, workers: usize) -> bool {
        let is_new = self.most == 0 && most > 0;
        self.most = self.most.max(most);
        if is_new {
            (self.generation, self.pending_workers) = (generation, workers);
            self.is_shared = workers > 0;
        }
        is_new && self.is_shared
    }

    /// Returns what ingest is asked for.
    pub(super) fn interest(&self) -> Option<HistoryInterest> {
        self.is_shared.then_some(HistoryInterest {
            generation: self.generation,
            most: self.most,
        })
    }

    /// Returns the number of updates that are kept.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns `true` if updates from before are still to come.
    pub(super) fn is_awaited(&self) -> bool {
        self.pending_workers > 0
    }

    /// Returns `true` if answers of this generation are still to come.
    pub(super) fn awaits_backfill(&self, generation: u32) -> bool {
        self.pending_workers > 0 && self.generation == generation
    }

    /// Takes in the answer of one worker. Returns the updates from before, the oldest first, when
    /// all workers have answered.
    pub(super) fn note_backfill(
        &mut self,
        generation: u32,
        updates: Vec<PastUpdate>,
    ) -> Option<Vec<PastUpdate>> {
        if !self.awaits_backfill(generation) {
            return None;
        }
        self.pending_workers -= 1;
        let mut clock_ms = i64::MIN;
        self.backfill.extend(updates.into_iter().map(|update| {
            // The updates of one worker stay in their order, whatever producers' clocks say.
            clock_ms = clock_ms.max(update.record_ms);
            PastUpdate {
                record_ms: clock_ms,
                ..update
            }
        }));
        if self.pending_workers > 0 {
            return None;
        }
        let mut backfill = std::mem::take(&mut self.backfill);
        backfill.sort_by_key(|update| update.record_ms);
        backfill.drain(..backfill.len().saturating_sub(self.most));
        for PastUpdate { values, fields, .. } in backfill.iter().rev() {
            if self.updates.len() >= self.most {
                break;
            }
            let update = (Arc::clone(values), Arc::clone(fields));
            self.updates.push_front(update);
        }
        Some(backfill)
    }

    fn push(&mut self, event: &Arc<FrozenValues>, extracted: &Arc<FieldSet>) {
        if self.most > 0 {
            if self.updates.len() >= self.most {
                self.updates.pop_front();
            }
            let update = (Arc::clone(event), Arc::clone(extracted));
            self.updates.push_back(update);
        }
    }

    /// Returns the last updates with all fields of a schema, oldest first, at most so many.
    pub(super) fn list(&self, schema: &FieldSchema, most: usize) -> Vec<Arc<FrozenValues>> {
        let newest = self.updates.iter().rev();
        let read = newest.filter(|(_, fields)| schema.wanted().is_subset(fields));
        let values = read.take(most).map(|(values, _)| Arc::clone(values));
        let mut values: Vec<_> = values.collect();
        values.reverse();
        values
    }
}
