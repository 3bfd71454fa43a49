//! The rows of an item in mode COMMAND, and the effect of a record on them.
//!
//! Rows are stored so that later subscribers receive all of them, that a field which is absent from
//! a record keeps its value, and that ADD and UPDATE are correct whatever a producer writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use weir_mapping::{CommandEvent, FieldSet, FieldValue, FrozenValues, RowCommand};

use crate::interest::{ItemKey, RowInterest, RowTableConfig};

/// Counters of row tables.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowTableCounters {
    /// Rows stored now.
    pub stored: u64,
    /// Updates of rows that were not stored because the table was full.
    pub not_stored: u64,
    /// Records without effect: rejected by the command mode, or about unknown rows.
    pub rejected: u64,
}

/// Rows of one item.
#[derive(Debug)]
pub struct RowTable {
    rules: RowTableConfig,
    /// Fields that every row has been read with.
    fields: FieldSet,
    /// Rows by age, so that they can be listed in the order of their ADD.
    rows: BTreeMap<u64, CommandRow>,
    ages: HashMap<Arc<str>, u64>,
    next_age: u64,
    /// Some rows were not stored: unknown rows may exist.
    is_incomplete: bool,
    /// No record has completed the snapshot yet.
    in_snapshot: bool,
    /// Values that up-to-date subscribers have received last, of any row.
    last: Option<Arc<FrozenValues>>,
    /// Number that distinguishes the table from earlier and later ones of the same item.
    generation: u32,
    /// Number of ingest workers that have not sent their rows yet.
    pending_workers: usize,
}

/// One row. Its command is always `ADD` or `UPDATE`.
#[derive(Debug, Clone)]
pub(crate) struct CommandRow {
    pub(crate) key: Arc<str>,
    pub(crate) values: Arc<FrozenValues>,
}

#[derive(Debug)]
pub(crate) enum RowStep {
    Row(RowChange),
    Clear,
    EndOfSnapshot,
}

#[derive(Debug)]
pub(crate) struct RowChange {
    pub(crate) key: Arc<str>,
    pub(crate) command: RowCommand,
    /// Values after the change, for subscribers that have received `before`.
    pub(crate) values: Arc<FrozenValues>,
    pub(crate) before: Option<Arc<FrozenValues>>,
    /// Values after the change, for other subscribers. A deleted row has only its key.
    pub(crate) whole: Arc<FrozenValues>,
    /// The row was not stored because the table is full: its earlier values are unknown.
    pub(crate) is_unstored: bool,
}

/// Rows of an item that one worker had stored before the interest of a shard began.
#[derive(Debug)]
pub struct RowBackfill {
    /// Item of the shard that sent the interest.
    pub item: ItemKey,
    /// Generation of the interest to which this is the response.
    pub generation: u32,
    /// Values of the rows in the order of their ADD.
    pub rows: Vec<Arc<FrozenValues>>,
    /// `true` if the snapshot is not complete yet.
    pub in_snapshot: bool,
}

/// A row from before the table was created.
#[derive(Debug)]
pub(crate) struct BackfilledRow {
    pub(crate) change: RowChange,
    /// Values sent before, if a record without all fields of the row came in the meantime.
    pub(crate) previous: Option<Arc<FrozenValues>>,
}

impl RowTable {
    /// Creates an empty table. Records of which not all of `fields` were read are ignored.
    pub fn new(rules: RowTableConfig, fields: FieldSet) -> Self {
        Self {
            rules,
            fields,
            rows: BTreeMap::new(),
            ages: HashMap::new(),
            next_age: 0,
            is_incomplete: false,
            in_snapshot: rules.mode.begins_with_snapshot(),
            last: None,
            generation: 0,
            pending_workers: 0,
        }
    }

    /// Makes the table wait for the earlier rows of `workers` workers.
    pub(crate) fn await_rows(&mut self, generation: u32, workers: usize) {
        (self.generation, self.pending_workers) = (generation, workers);
    }

    pub(crate) fn interest(&self) -> RowInterest {
        RowInterest {
            generation: self.generation,
            rules: self.rules,
        }
    }

    pub(crate) fn awaits_backfill(&self, generation: u32) -> bool {
        self.pending_workers > 0 && self.generation == generation
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending_workers > 0
    }

    /// Records that a worker has sent its rows. Returns `true` if the snapshot is complete now.
    pub(crate) fn note_backfill(&mut self, in_snapshot: bool) -> bool {
        self.pending_workers = self.pending_workers.saturating_sub(1);
        self.in_snapshot = in_snapshot;
        !self.in_snapshot()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &CommandRow> {
        self.rows.values()
    }

    /// Returns the values of the rows in the order of their ADD.
    pub fn values(&self) -> impl Iterator<Item = &Arc<FrozenValues>> {
        self.rows.values().map(|row| &row.values)
    }

    /// Returns `true` if more rows of the snapshot may follow.
    pub fn in_snapshot(&self) -> bool {
        self.in_snapshot || self.pending_workers > 0
    }

    pub(crate) fn last(&self) -> Option<&Arc<FrozenValues>> {
        self.last.as_ref()
    }

    /// Applies an update of which the fields `extracted` were read; `None` if it has no effect.
    pub(crate) fn advance(
        &mut self,
        event: &Arc<FrozenValues>,
        extracted: &FieldSet,
        counts: &mut RowTableCounters,
    ) -> Option<RowStep> {
        if !self.fields.is_subset(extracted) {
            return None;
        }
        let before = self.rows.len() as u64;
        let step = self.apply(event, extracted, counts);
        let after = self.rows.len() as u64;
        counts.stored = counts.stored.wrapping_add(after).wrapping_sub(before);
        counts.rejected += u64::from(step.is_none());
        step
    }

    /// Applies an update for which no subscriber waits here.
    pub fn store(&mut self, event: &Arc<FrozenValues>, extracted: &FieldSet) {
        self.advance(event, extracted, &mut RowTableCounters::default());
    }

    pub(crate) fn backfill(
        &mut self,
        row: &Arc<FrozenValues>,
        counts: &mut RowTableCounters,
    ) -> Option<BackfilledRow> {
        let key = row.get(self.rules.fields?.0)?;
        let known = self.ages.get(key).and_then(|age| self.rows.get(age));
        let previous = known.map(|row| self.with_command(&row.values, RowCommand::Update));
        let fields = self.fields.clone();
        match self.advance(row, &fields, counts)? {
            RowStep::Row(change) => Some(BackfilledRow { change, previous }),
            RowStep::Clear | RowStep::EndOfSnapshot => None,
        }
    }

    fn apply(
        &mut self,
        event: &Arc<FrozenValues>,
        extracted: &FieldSet,
        counts: &mut RowTableCounters,
    ) -> Option<RowStep> {
        let (key_field, command_field) = self.rules.fields?;
        let command = event.get(command_field);
        match self.rules.mode.read(event.get(key_field), command)? {
            CommandEvent::ClearSnapshot => {
                self.remove_all();
                self.in_snapshot = self.rules.mode.begins_with_snapshot();
                Some(RowStep::Clear)
            }
            CommandEvent::EndOfSnapshot => {
                self.in_snapshot = false;
                // Outstanding rows are sent before the end.
                (self.pending_workers == 0).then_some(RowStep::EndOfSnapshot)
            }
            CommandEvent::Row { key, command } => {
                let change = match command {
                    RowCommand::Delete => self.delete(key, event)?,
                    RowCommand::Add | RowCommand::Update => self.put(key, event, extracted, counts),
                };
                Some(RowStep::Row(change))
            }
        }
    }

    /// Removes all rows. Returns their number.
    pub(crate) fn remove_all(&mut self) -> usize {
        let rows = self.rows.len();
        self.rows.clear();
        self.ages.clear();
        self.is_incomplete = false;
        rows
    }

    fn delete(&mut self, key: &str, event: &FrozenValues) -> Option<RowChange> {
        let (key_field, command_field) = self.rules.fields?;
        let known = self.ages.remove_entry(key);
        if known.is_none() && !self.is_incomplete {
            return None;
        }
        let is_unstored = known.is_none();
        let key = known.map_or_else(
            || Arc::from(key),
            |(key, age)| {
                self.rows.remove(&age);
                key
            },
        );
        let named = |index, value| match index == key_field || index == command_field {
            true => value,
            false => FieldValue::Skipped,
        };
        let whole = Arc::new(event.map(0, named)?);
        let before = self.last.clone();
        // Clients show no other field of a deleted row, so unchanged values cost least.
        let last = before.as_ref();
        let values = last.and_then(|last| whole.filled_from(last, |_| true));
        let values = values.map_or_else(|| Arc::clone(&whole), Arc::new);
        self.last = before.is_some().then(|| Arc::clone(&values));
        Some(RowChange {
            key,
            command: RowCommand::Delete,
            values,
            before,
            whole,
            is_unstored,
        })
    }

    fn put(
        &mut self,
        key: &str,
        event: &Arc<FrozenValues>,
        extracted: &FieldSet,
        counts: &mut RowTableCounters,
    ) -> RowChange {
        let is_full = self.rows.len() >= self.rules.keys_max;
        let older = self.ages.get(key).and_then(|age| self.rows.get_mut(age));
        let command = match older {
            Some(_) => RowCommand::Update,
            None => RowCommand::Add,
        };
        let carried = older
            .as_ref()
            .and_then(|row| event.filled_from(&row.values, |index| extracted.contains(index)));
        let merged = carried.map_or_else(|| Arc::clone(event), Arc::new);
        let command_field = self.rules.fields.map(|(_, command)| command);
        let values = with_command(&merged, command_field, command);
        let is_unstored = older.is_none() && is_full;
        let key = match (older, is_unstored) {
            (Some(row), _) => {
                row.values = Arc::clone(&values);
                Arc::clone(&row.key)
            }
            (None, true) => {
                self.is_incomplete = true;
                counts.not_stored += 1;
                Arc::from(key)
            }
            (None, false) => self.insert(key, &values),
        };
        RowChange {
            key,
            command,
            before: self.last.replace(Arc::clone(&values)),
            whole: Arc::clone(&values),
            values,
            is_unstored,
        }
    }

    fn insert(&mut self, key: &str, values: &Arc<FrozenValues>) -> Arc<str> {
        let key: Arc<str> = key.into();
        let row = CommandRow {
            key: Arc::clone(&key),
            values: Arc::clone(values),
        };
        self.ages.insert(Arc::clone(&key), self.next_age);
        self.rows.insert(self.next_age, row);
        self.next_age += 1;
        key
    }

    pub(crate) fn with_command(
        &self,
        values: &Arc<FrozenValues>,
        command: RowCommand,
    ) -> Arc<FrozenValues> {
        with_command(values, self.rules.fields.map(|(_, field)| field), command)
    }
}

fn with_command(
    values: &Arc<FrozenValues>,
    field: Option<usize>,
    command: RowCommand,
) -> Arc<FrozenValues> {
    let word = command.as_str();
    let Some(field) = field.filter(|field| values.get(*field) != Some(word)) else {
        return Arc::clone(values);
    };
    let changed = values.map(0, |index, value| match index == field {
        true => FieldValue::Text(word),
        false => value,
    });
    changed.map_or_else(|| Arc::clone(values), Arc::new)
}
