//! Data of an item that is stored for later subscribers in modes DISTINCT and COMMAND.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_mapping::{FieldSet, FrozenValues};

use super::row_table::RowTable;
use super::schema::FieldSchema;
use crate::interest::{HistoryInterest, ItemKey, RowTableConfig};

/// Data that a subscriber needs to be stored.
#[derive(Debug, Clone, Copy)]
pub enum Retention {
    /// The current values, as for every item.
    Values,
    /// The last updates: their maximum number, and the number of workers that may have earlier
    /// ones.
    History(usize, usize),
    /// The rows: their configuration, and the number of workers that may have earlier ones.
    Rows(RowTableConfig, usize),
}

#[derive(Debug, Default)]
pub(crate) struct ItemHistory {
    pub(crate) history: UpdateHistory,
    pub(crate) table: Option<RowTable>,
}

#[derive(Debug, Default)]
pub(crate) struct UpdateHistory {
    /// Updates, with the fields that were extracted.
    updates: VecDeque<(Arc<FrozenValues>, Arc<FieldSet>)>,
    /// Maximum number of stored updates; 0: none.
    pub(crate) updates_max: usize,
    /// Number that distinguishes the history from earlier and later ones of the same item.
    generation: u32,
    /// `true` if workers may have stored updates for other event loops before the history began.
    is_shared: bool,
    /// Number of ingest workers that have not responded yet.
    pending_workers: usize,
    /// Earlier updates from the workers that have responded.
    backfill: Vec<PastUpdate>,
}

/// An update from before an event loop's history of its item began.
#[derive(Debug, Clone)]
pub struct PastUpdate {
    /// Values of the update.
    pub values: Arc<FrozenValues>,
    /// Fields that were extracted.
    pub fields: Arc<FieldSet>,
    /// Time of the record; -1 if unknown.
    pub record_ms: i64,
}

/// Last updates of an item that one worker had stored before the interest of a shard began.
#[derive(Debug)]
pub struct HistoryBackfill {
    /// Item of the shard that sent the interest.
    pub item: ItemKey,
    /// Generation of the interest that the worker responds to.
    pub generation: u32,
    /// Updates, oldest first.
    pub updates: Vec<PastUpdate>,
}

impl UpdateHistory {
    /// Stores up to `updates_max` updates from now on. Returns `true` if none were stored before
    /// and `workers` must send earlier ones.
    pub(crate) fn begin(&mut self, updates_max: usize, generation: u32, workers: usize) -> bool {
        let is_new = self.updates_max == 0 && updates_max > 0;
        self.updates_max = self.updates_max.max(updates_max);
        if is_new {
            (self.generation, self.pending_workers) = (generation, workers);
            self.is_shared = workers > 0;
        }
        is_new && self.is_shared
    }

    pub(crate) fn interest(&self) -> Option<HistoryInterest> {
        self.is_shared.then_some(HistoryInterest {
            generation: self.generation,
            updates_max: self.updates_max,
        })
    }

    /// Returns `true` if responses of workers are outstanding.
    pub(crate) fn is_backfill_pending(&self) -> bool {
        self.pending_workers > 0
    }

    pub(crate) fn awaits_backfill(&self, generation: u32) -> bool {
        self.pending_workers > 0 && self.generation == generation
    }

    /// Adds the awaited response of one worker. When all workers have responded, returns the
    /// earlier updates, oldest first.
    pub(crate) fn note_backfill(&mut self, updates: Vec<PastUpdate>) -> Option<Vec<PastUpdate>> {
        self.pending_workers = self.pending_workers.saturating_sub(1);
        let mut clock_ms = i64::MIN;
        self.backfill.extend(updates.into_iter().map(|update| {
            // The updates of one worker keep their order, whatever the producers' clocks are.
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
        backfill.drain(..backfill.len().saturating_sub(self.updates_max));
        for PastUpdate { values, fields, .. } in backfill.iter().rev() {
            if self.updates.len() >= self.updates_max {
                break;
            }
            let update = (Arc::clone(values), Arc::clone(fields));
            self.updates.push_front(update);
        }
        Some(backfill)
    }

    pub(crate) fn push(&mut self, values: &Arc<FrozenValues>, fields: &Arc<FieldSet>) {
        if self.updates_max > 0 {
            if self.updates.len() >= self.updates_max {
                self.updates.pop_front();
            }
            let update = (Arc::clone(values), Arc::clone(fields));
            self.updates.push_back(update);
        }
    }

    /// Removes the stored updates; later ones are still stored.
    pub(crate) fn clear(&mut self) {
        self.updates.clear();
    }

    /// Returns up to `limit` of the last updates with all fields of a schema, oldest first.
    pub(crate) fn list(&self, schema: &FieldSchema, limit: usize) -> Vec<Arc<FrozenValues>> {
        let newest = self.updates.iter().rev();
        let complete = newest.filter(|(_, fields)| schema.field_set().is_subset(fields));
        let values = complete.take(limit).map(|(values, _)| Arc::clone(values));
        let mut values: Vec<_> = values.collect();
        values.reverse();
        values
    }
}
