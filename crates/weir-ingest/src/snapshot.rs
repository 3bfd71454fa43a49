//! Records of a connection that stores snapshots (`item.snapshot.enabled.mode`).
//!
//! All fields of every record are extracted, with or without subscribers, so that a record that
//! cannot be extracted never replaces one that can.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_fanout::{HistoryBackfill, Interest, PastUpdate, RowBackfill};
use weir_mapping::{
    CommandEvent, CommandMode, ConnectionConfig, FieldSet, FieldValues, FrozenValues, Mapping,
    RecordView, SnapshotMode,
};
use weir_net::limited;

use crate::item_event::ItemEvent;
use crate::item_records::RowOf;
use crate::last_values::LastValueStore;

/// Values of a stored record, and its time.
type StoredUpdate = (Arc<FrozenValues>, i64);

/// Time between two searches for idle items.
const IDLE_CHECK: Duration = Duration::from_secs(1);

/// Fields and limits with which a worker stores snapshots.
#[derive(Debug)]
pub(crate) struct SnapshotMapping {
    /// All fields: the configured ones, and the dynamic ones in use.
    fields: Arc<FieldSet>,
    /// Indexes of the fields `key` and `command`, in mode COMMAND.
    row_fields: Option<(usize, usize)>,
    command_mode: CommandMode,
    max_idle: Option<Duration>,
    checked: Instant,
    evicted: u64,
}

impl SnapshotMapping {
    /// Returns the mapping of a connection whose snapshots are stored.
    pub(crate) fn of(config: &ConnectionConfig) -> Option<Self> {
        let snapshots = config.snapshots?;
        let mapping = &config.mapping;
        let has_rows = snapshots.mode == SnapshotMode::Command;
        Some(Self {
            fields: Arc::new(mapping.all_fields()),
            row_fields: mapping.command_fields().filter(|_| has_rows),
            command_mode: mapping.command_mode(),
            max_idle: snapshots.max_idle,
            checked: Instant::now(),
            evicted: 0,
        })
    }

    /// Adds the dynamic fields that came into use.
    pub(crate) fn update_fields(&mut self, mapping: &Mapping) {
        if mapping.wildcard().is_some() {
            let fields = mapping.all_fields();
            if *self.fields != fields {
                self.fields = Arc::new(fields);
            }
        }
    }

    /// Returns the row that a record with these values changes.
    fn row<'a>(&self, values: &'a FieldValues) -> Option<RowOf<'a>> {
        let (key, command) = self.row_fields?;
        match self
            .command_mode
            .read(values.get(key), values.get(command))?
        {
            CommandEvent::Row { key, command } => Some((key, command)),
            CommandEvent::ClearSnapshot | CommandEvent::EndOfSnapshot => None,
        }
    }

    /// Returns the fields to extract of every record.
    pub(crate) fn fields(&self) -> &Arc<FieldSet> {
        &self.fields
    }

    /// Stores a record whose fields were extracted to `values`.
    pub(crate) fn put<'n>(
        &self,
        last: &mut LastValueStore,
        names: impl Iterator<Item = &'n str>,
        record: &RecordView<'_>,
        values: &FieldValues,
        now: Instant,
    ) {
        let row = self.row(values);
        if row.is_some() || self.row_fields.is_none() {
            names.for_each(|name| last.put(name, record, row, now));
        }
    }

    /// Adds stored records to what routes have stored since they exist.
    pub(crate) fn add_stored(
        &self,
        last: &LastValueStore,
        event: &mut ItemEvent,
        interest: &Interest,
        (mapping, values): (&Mapping, &mut FieldValues),
    ) {
        let Some(fields) = interest.subscribed().map(|wanted| &wanted.fields) else {
            return;
        };
        let mut stored = Vec::new();
        let read = |record: &RecordView<'_>| {
            // All of them could be extracted when they were stored.
            if mapping.field_values(record, fields, values).is_ok() {
                stored.push((Arc::new(values.freeze()), record.timestamp_ms));
            }
        };
        match event {
            ItemEvent::RowBackfill(backfill) => {
                last.each(&interest.name, read);
                self.add_rows(stored, backfill);
            }
            ItemEvent::HistoryBackfill(backfill) => {
                last.each(&interest.name, read);
                add_history(stored, fields, backfill);
            }
            _ => {}
        }
    }

    /// Puts the stored rows before those of the route that are not stored because of an eviction.
    fn add_rows(&self, stored: Vec<StoredUpdate>, backfill: &mut RowBackfill) {
        let Some((key_field, _)) = self.row_fields else {
            return;
        };
        let keys = stored.iter().filter_map(|(row, _)| row.get(key_field));
        let keys: HashSet<_> = keys.collect();
        let is_other = |row: &Arc<FrozenValues>| {
            let key = row.get(key_field);
            key.is_none_or(|key| !keys.contains(key))
        };
        let routed = std::mem::take(&mut backfill.rows).into_iter();
        let others: Vec<_> = routed.filter(is_other).collect();
        backfill.rows = stored.iter().map(|(row, _)| Arc::clone(row)).collect();
        backfill.rows.extend(others);
    }

    /// Discards the snapshots of idle items and returns their names. Warns of snapshots that were
    /// evicted for lack of memory.
    pub(crate) fn expire(
        &mut self,
        last: &mut LastValueStore,
        connection: &str,
        now: Instant,
    ) -> Vec<Arc<str>> {
        if now < self.checked + IDLE_CHECK {
            return Vec::new();
        }
        self.checked = now;
        if last.evicted > self.evicted {
            self.evicted = last.evicted;
            limited!(
                warn, "snapshots evicted", %connection, evicted = last.evicted,
                "snapshots of items evicted: raise last_values.memory_bytes"
            );
        }
        let max_idle = self.max_idle;
        max_idle.map_or_else(Vec::new, |max_idle| last.expire(max_idle, now))
    }
}

/// Uses the stored updates unless a route has more of them, because of an eviction.
fn add_history(stored: Vec<StoredUpdate>, fields: &FieldSet, backfill: &mut HistoryBackfill) {
    if stored.len() < backfill.updates.len() {
        return;
    }
    let fields = Arc::new(fields.clone());
    let updates = stored.into_iter().map(|(values, record_ms)| PastUpdate {
        values,
        fields: Arc::clone(&fields),
        record_ms,
    });
    backfill.updates = updates.collect();
}
