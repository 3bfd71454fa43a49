//! One item: its subscribers and last values, and the effect of one update on both.

use std::sync::Arc;

use weir_mapping::{FieldSet, FieldValue, FrozenValues};

use super::class::{ClassKey, FrameClass};
use super::classes::ItemClasses;
use super::delivery_mode::{DeliveryMode, PayloadSource};
use super::frequency::FrequencyScope;
use super::item_history::{ItemHistory, Retention, UpdateHistory};
use super::row_table::{RowChange, RowStep, RowTable, RowTableCounters};
use super::schema::FieldSchema;
use crate::interest::{HistoryInterest, ItemInterest, ItemKey, RowInterest};

/// Identity of an item: the number of the Kafka connection and the canonical name.
pub type ItemName = (u16, Arc<str>);

/// An item with its subscribers and values.
#[derive(Debug, Default)]
pub struct Item {
    pub(crate) name: ItemName,
    pub(crate) epoch: u32,
    /// Fields that ingest extracts; a superset of the fields of all classes.
    pub(crate) fields: FieldSet,
    /// Last update, which up-to-date subscribers to events have received.
    last: Option<Arc<FrozenValues>>,
    /// Current values: the last update merged over the earlier ones.
    pub(crate) state: Option<Arc<FrozenValues>>,
    /// Fields whose current values are known.
    pub(crate) known: Arc<FieldSet>,
    pub(crate) classes: ItemClasses,
    /// Number of classes whose clients receive events.
    pub(crate) event_classes: u32,
    /// Row table and history, which only some modes need.
    pub(crate) retained: Option<Box<ItemHistory>>,
}

impl Item {
    pub(crate) fn new(name: &ItemName, epoch: u32) -> Self {
        Self {
            name: name.clone(),
            epoch,
            ..Self::default()
        }
    }

    /// Adds extracted fields; returns `false` if all were extracted already. The current values of
    /// new fields are unknown, because records in transit may lack them.
    pub(crate) fn widen(&mut self, wanted: &FieldSet) -> bool {
        if wanted.is_subset(&self.fields) {
            return false;
        }
        let is_new = |index| wanted.contains(index) && !self.fields.contains(index);
        let retained_before = self.known.iter().filter(|index| !is_new(*index));
        self.known = Arc::new(retained_before.collect());
        self.fields.union_with(wanted)
    }

    /// Returns the current interest in the item, which is in this slot.
    pub(crate) fn interest(&self, slot: u32) -> ItemInterest {
        let (rows, history) = self.retention();
        let epoch = self.epoch;
        ItemInterest {
            item: ItemKey { slot, epoch },
            fields: self.fields.clone(),
            rows,
            history,
            positions: self.event_classes > 0,
        }
    }

    pub(crate) fn retention(&self) -> (Option<RowInterest>, Option<HistoryInterest>) {
        let history = self.history().and_then(UpdateHistory::interest);
        (self.table().map(RowTable::interest), history)
    }

    /// Starts to store what a subscriber needs; existing data is retained. Returns `true` if
    /// workers must send earlier data.
    pub(crate) fn retain(
        &mut self,
        keep: Retention,
        schema: &FieldSchema,
        generation: u32,
    ) -> bool {
        match keep {
            Retention::Values => false,
            Retention::History(most, workers) => {
                let history = &mut self.retained.get_or_insert_default().history;
                history.begin(most, generation, workers)
            }
            Retention::Rows(rules, workers) => {
                let table = &mut self.retained.get_or_insert_default().table;
                let is_new = table.is_none();
                if is_new {
                    let mut new = RowTable::new(rules, schema.field_set().clone());
                    new.await_rows(generation, workers);
                    *table = Some(new);
                }
                is_new
            }
        }
    }

    /// Removes the row table and the history if no class needs them. Returns the number of removed
    /// rows.
    pub(crate) fn remove_unneeded(&mut self) -> usize {
        let (events, rows) = (
            self.classes.has(PayloadSource::Event),
            self.classes.has(PayloadSource::Row),
        );
        let Some(retained) = &mut self.retained else {
            return 0;
        };
        let table = if rows { None } else { retained.table.take() };
        if !events {
            retained.history = UpdateHistory::default();
        }
        if !events && !rows {
            self.retained = None;
        }
        table.map_or(0, |table| table.len())
    }

    pub(crate) fn class_mut(&mut self, key: ClassKey<'_>) -> Option<&mut FrameClass> {
        self.table_and_class_mut(key).1
    }

    pub(crate) fn table_and_class_mut(
        &mut self,
        key: ClassKey<'_>,
    ) -> (Option<&RowTable>, Option<&mut FrameClass>) {
        let retained = self.retained.as_ref();
        let table = retained.and_then(|retained| retained.table.as_ref());
        let at = self.classes.find(key);
        (table, at.and_then(|at| self.classes.get_mut(at)))
    }

    /// Applies an update of which the fields `extracted` were read.
    ///
    /// A field that was read but is not in the record keeps its value. The same holds for a field
    /// that this shard needs and a worker has not read, because it does not know the interest yet.
    /// All other fields become unknown.
    pub(crate) fn advance(
        &mut self,
        event: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
        counts: &mut RowTableCounters,
    ) -> Transition {
        let row = match &mut self.retained {
            None => None,
            Some(retained) => {
                retained.history.push(&event, extracted);
                let table = retained.table.as_mut();
                table.and_then(|table| table.advance(&event, extracted, counts))
            }
        };
        let (state, state_before) = self.merge(&event, extracted);
        Transition {
            event_before: self.last.replace(Arc::clone(&event)),
            event,
            state,
            state_before,
            row,
        }
    }

    /// Forgets the rows and the stored updates. Returns the number of rows.
    pub(crate) fn clear_retained(&mut self) -> usize {
        let Some(retained) = &mut self.retained else {
            return 0;
        };
        retained.history.clear();
        retained.table.as_mut().map_or(0, RowTable::remove_all)
    }

    /// Returns an update that sets all known values to null; `None` if no value is known.
    pub(crate) fn null_update(&self) -> Option<Arc<FrozenValues>> {
        let state = self.state.as_ref()?;
        let nulls = state.map(state.len(), |_, _| FieldValue::Null)?;
        Some(Arc::new(nulls))
    }

    /// Returns `true` if rows of a worker for this generation of the row table are outstanding.
    pub fn awaits_rows(&self, generation: u32) -> bool {
        let table = self.table();
        table.is_some_and(|table| table.awaits_backfill(generation))
    }

    /// Returns `true` if updates of a worker for this generation of the history are outstanding.
    pub fn awaits_history(&self, generation: u32) -> bool {
        let history = self.history();
        history.is_some_and(|history| history.awaits_backfill(generation))
    }

    /// Returns `true` if the current values of all needed fields are known.
    pub fn has_all_values(&self) -> bool {
        self.state.is_some() && self.fields.is_subset(&self.known)
    }

    /// Adds values that are not an update, as far as they are unknown. Known values may be newer,
    /// if several workers read the item's records.
    pub(crate) fn backfill(
        &mut self,
        values: Arc<FrozenValues>,
        fields: &Arc<FieldSet>,
    ) -> Transition {
        let state_before = self.state.take();
        let state = match &state_before {
            None => Arc::clone(&values),
            Some(state) => {
                let of_either = |index, backfilled| match self.known.contains(index) {
                    true => state.value(index),
                    false => backfilled,
                };
                let filled = values.map(state.len(), of_either);
                filled.map_or_else(|| Arc::clone(state), Arc::new)
            }
        };
        self.state = Some(Arc::clone(&state));
        let mut known = FieldSet::clone(&self.known);
        known.union_with(fields);
        self.known = Arc::new(known);
        Transition {
            event_before: None,
            event: values,
            state,
            state_before,
            row: None,
        }
    }

    fn merge(
        &mut self,
        event: &Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) -> (Arc<FrozenValues>, Option<Arc<FrozenValues>>) {
        let state_before = self.state.take();
        let carries = |index| {
            self.known.contains(index) && (extracted.contains(index) || self.fields.contains(index))
        };
        let older = state_before.as_ref();
        let merged = older.and_then(|older| event.filled_from(older, carries));
        let state = merged.map_or_else(|| Arc::clone(event), Arc::new);
        self.state = Some(Arc::clone(&state));
        self.known = if self.fields.is_subset(extracted) {
            Arc::clone(extracted)
        } else {
            let known = self.known.iter();
            let retained_before = known.filter(|index| self.fields.contains(*index));
            Arc::new(retained_before.chain(extracted.iter()).collect())
        };
        (state, state_before)
    }

    /// Returns the values that up-to-date members with this payload source have received.
    pub(crate) fn last(&self, payload_source: PayloadSource) -> Option<&Arc<FrozenValues>> {
        match payload_source {
            PayloadSource::Event => self.last.as_ref(),
            PayloadSource::State => self.state.as_ref(),
            PayloadSource::Row => self.table()?.last(),
        }
    }

    pub(crate) fn table(&self) -> Option<&RowTable> {
        self.retained.as_ref()?.table.as_ref()
    }

    pub(crate) fn table_mut(&mut self) -> Option<&mut RowTable> {
        self.retained.as_mut()?.table.as_mut()
    }

    pub(crate) fn history(&self) -> Option<&UpdateHistory> {
        self.retained.as_ref().map(|retained| &retained.history)
    }

    /// Returns the current values if they are known for all fields of a schema.
    pub(crate) fn snapshot(&self, schema: &FieldSchema) -> Option<&Arc<FrozenValues>> {
        let is_known = schema.field_set().is_subset(&self.known);
        self.state.as_ref().filter(|_| is_known)
    }
}

/// State change of an item: the values that subscribers receive, and those they received before.
#[derive(Debug)]
pub(crate) struct Transition {
    pub(crate) event: Arc<FrozenValues>,
    pub(crate) event_before: Option<Arc<FrozenValues>>,
    pub(crate) state: Arc<FrozenValues>,
    pub(crate) state_before: Option<Arc<FrozenValues>>,
    pub(crate) row: Option<RowStep>,
}

/// A transition as seen by the subscribers of one delivery mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Emission<'a> {
    /// Values of up-to-date members after the transition.
    pub(crate) values: &'a Arc<FrozenValues>,
    /// Values of up-to-date members before the transition.
    pub(crate) before: Option<&'a Arc<FrozenValues>>,
    /// Values for members that are not up to date.
    pub(crate) whole: &'a Arc<FrozenValues>,
    pub(crate) row: Option<&'a RowChange>,
    /// `false` for a backfill. It goes only to members that wait for their snapshot, and to members
    /// whose values it changes.
    pub(crate) is_live: bool,
}

impl Transition {
    /// Returns what the subscribers of a delivery mode receive; `None` if that is nothing.
    pub(crate) fn emission(&self, delivery: DeliveryMode) -> Option<Emission<'_>> {
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
    pub(crate) fn as_backfill(self) -> Self {
        Self {
            is_live: false,
            ..self
        }
    }

    pub(crate) fn of_row(change: &'a RowChange) -> Self {
        Self {
            values: &change.values,
            before: change.before.as_ref(),
            whole: &change.whole,
            row: Some(change),
            is_live: true,
        }
    }

    pub(crate) fn frequency_scope(&self) -> FrequencyScope<'a> {
        match self.row {
            Some(change) => FrequencyScope::row(&change.key, change.command),
            None => FrequencyScope::Item,
        }
    }
}
