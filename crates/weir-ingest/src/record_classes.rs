//! Classes of the current record, on connections with item rules that have `where`.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_identity::rules::RecordSelection;
use weir_mapping::{
    CommandEvent, CommandMode, FieldSet, FieldValues, FilterValues, ItemNames, Mapping, RecordView,
};

use crate::class_name::ClassName;
use crate::connection::KafkaConnection;
use crate::routing::RoutingTable;

/// Expressions of a connection, and the classes of its current record.
pub(crate) struct RecordClasses {
    selections: Vec<RecordSelection>,
    values: FilterValues,
    snapshot_events: Option<SnapshotEvents>,
    /// Names of the classes of one value, concatenated, with their ends.
    stored: (String, Vec<usize>),
    routed: SmallVec<[Arc<str>; 4]>,
}

impl RecordClasses {
    /// Returns the expressions of a connection; `None` if there are none.
    pub(crate) fn of(connection: &KafkaConnection) -> Option<Self> {
        let selections = &connection.record_selections;
        (!selections.is_empty()).then(|| Self {
            selections: selections.clone(),
            values: FilterValues::default(),
            snapshot_events: SnapshotEvents::of(&connection.config.mapping),
            stored: Default::default(),
            routed: SmallVec::new(),
        })
    }

    /// Finds the classes of a record with these items. Those without interest are found if
    /// `all` is `true`.
    pub(crate) fn find(
        &mut self,
        record: &RecordView<'_>,
        names: &ItemNames,
        (mapping, table): (&Mapping, &RoutingTable),
        all: bool,
    ) {
        self.stored.0.clear();
        self.stored.1.clear();
        self.routed.clear();
        let is_wanted = |item| table.classes(item).is_some();
        if !all && !names.iter().any(is_wanted) {
            return;
        }
        mapping.begin_filters(&mut self.values);
        for item in names.iter() {
            if all {
                self.find_all(record, item, mapping);
            }
            self.find_wanted(record, item, (mapping, table));
        }
    }

    fn find_all(&mut self, record: &RecordView<'_>, item: &str, mapping: &Mapping) {
        let prefix = item.split_once("-[").map_or(item, |(prefix, _)| prefix);
        for (place, selection) in self.selections.iter().enumerate() {
            if !selection.concerns(prefix) {
                continue;
            }
            let value = mapping.filter_value(place, record, &mut self.values);
            // No class has other values.
            let values = value.filter(|value| !value.is_empty() && !value.contains(','));
            if let Some(values) = values {
                let filter = place as u16;
                let class = ClassName {
                    filter,
                    values,
                    item,
                };
                class.write(&mut self.stored.0);
                self.stored.1.push(self.stored.0.len());
            }
        }
    }

    fn find_wanted(
        &mut self,
        record: &RecordView<'_>,
        item: &str,
        (mapping, table): (&Mapping, &RoutingTable),
    ) {
        let Some(classes) = table.classes(item) else {
            return;
        };
        let events = self.snapshot_events.as_mut();
        if events.is_some_and(|events| events.contain(record, mapping)) {
            let all = classes.filters().iter().flat_map(|own| own.all());
            for name in all {
                if !self.routed.contains(name) {
                    self.routed.push(Arc::clone(name));
                }
            }
            return;
        }
        for own in classes.filters() {
            let place = usize::from(own.filter);
            if let Some(value) = mapping.filter_value(place, record, &mut self.values) {
                self.routed.extend(own.of_value(value).iter().cloned());
            }
        }
    }

    /// Returns the classes that shards are interested in.
    pub(crate) fn routed(&self) -> impl Iterator<Item = &str> {
        self.routed.iter().map(|name| &**name)
    }

    /// Returns the classes of one value, with or without interest, if all were to be found.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &str> {
        let (text, ends) = &self.stored;
        let mut start = 0;
        ends.iter()
            .map(move |&end| &text[std::mem::replace(&mut start, end)..end])
    }
}

/// Records that clear or end the snapshot of an item. They have no data and concern every class.
struct SnapshotEvents {
    mode: CommandMode,
    /// Indexes of the fields `key` and `command`.
    fields: (usize, usize),
    wanted: FieldSet,
    values: FieldValues,
}

impl SnapshotEvents {
    /// Returns `None` if a connection has no such records.
    fn of(mapping: &Mapping) -> Option<Self> {
        let mode = mapping.command_mode();
        let fields = mapping.command_fields()?;
        mode.begins_with_snapshot().then(|| Self {
            mode,
            fields,
            wanted: [fields.0, fields.1].into_iter().collect(),
            values: FieldValues::default(),
        })
    }

    /// Returns `true` for such a record.
    fn contain(&mut self, record: &RecordView<'_>, mapping: &Mapping) -> bool {
        let values = &mut self.values;
        if mapping.field_values(record, &self.wanted, values).is_err() {
            return false;
        }
        let (key, command) = self.fields;
        matches!(
            self.mode.read(values.get(key), values.get(command)),
            Some(CommandEvent::ClearSnapshot | CommandEvent::EndOfSnapshot)
        )
    }
}
