//! Field schemas of subscriptions, resolved once and shared by all subscriptions with the same
//! field list.

use std::sync::{Arc, Weak};

use foldhash::HashMap;
use smallvec::SmallVec;
use weir_mapping::{
    COMMAND_FIELD, DynamicField, FieldSet, FrozenValues, KEY_FIELD, Mapping, split_fields,
};

/// Fields of a subscription: for each position, the index of the field in the mapping of the Kafka
/// connection, or `None` for a name that is not mapped and therefore stays null.
#[derive(Debug)]
pub struct FieldSchema {
    /// Names as requested, separated by white space.
    text: Box<str>,
    fields: SmallVec<[Option<u16>; 8]>,
    field_set: FieldSet,
    /// Positions, from 1, of the fields `key` and `command` of a schema for mode COMMAND.
    pub command: Option<(u32, u32)>,
    /// Dynamic fields of the schema; owning them reserves their indexes.
    _dynamic: Vec<Arc<DynamicField>>,
}

impl FieldSchema {
    /// Resolves the names in `schema`, which are separated by white space.
    pub(crate) fn resolve(schema: &str, mapping: &Mapping) -> Self {
        let index = |name| {
            let index = mapping.field_index(name);
            index.and_then(|index| u16::try_from(index).ok())
        };
        // The caller has checked that the mapping has free indexes for the names.
        let dynamic = mapping.use_dynamic_fields(split_fields(schema));
        Self {
            text: schema.into(),
            _dynamic: dynamic.unwrap_or_default(),
            ..Self::of(split_fields(schema).map(index))
        }
    }

    /// Resolves the names for mode COMMAND. Rows are stored for later subscribers, which may need
    /// any field, so all fields are extracted.
    fn resolve_rows(schema: &str, mapping: &Mapping) -> Self {
        let position = |name: &str| {
            let found = split_fields(schema).position(|field| field == name);
            found.and_then(|index| u32::try_from(index + 1).ok())
        };
        let command = position(KEY_FIELD).zip(position(COMMAND_FIELD));
        let schema = Self::resolve(schema, mapping);
        Self {
            field_set: mapping.all_fields(),
            command,
            ..schema
        }
    }

    /// Creates the schema of these field indexes; `None` is a field that stays null.
    pub fn of(fields: impl IntoIterator<Item = Option<u16>>) -> Self {
        let fields: SmallVec<[Option<u16>; 8]> = fields.into_iter().collect();
        let mapped = fields.iter().flatten().map(|index| usize::from(*index));
        Self {
            text: Box::default(),
            field_set: mapped.collect(),
            fields,
            command: None,
            _dynamic: Vec::new(),
        }
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        split_fields(&self.text)
    }

    /// Creates a schema whose fields have the indexes 0, 1 and so on.
    #[cfg(test)]
    pub(crate) fn named(names: &str) -> Self {
        Self {
            text: names.into(),
            ..Self::of((0..split_fields(names).count() as u16).map(Some))
        }
    }

    /// Returns the indexes of all fields.
    pub fn field_set(&self) -> &FieldSet {
        &self.field_set
    }

    /// Returns the number of fields.
    pub fn field_count(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn differs(&self, one: &FrozenValues, other: &FrozenValues) -> bool {
        !self.project(one).eq(self.project(other))
    }

    pub(crate) fn project<'a>(
        &'a self,
        values: &'a FrozenValues,
    ) -> impl Iterator<Item = Option<&'a str>> {
        let fields = self.fields.iter();
        fields.map(|field| field.and_then(|index| values.get(usize::from(index))))
    }
}

/// Schemas in use. Equal field lists share one object, so that they are compared by address.
#[derive(Debug, Default)]
pub struct SchemaCache {
    schemas: HashMap<(u16, bool, Box<str>), Weak<FieldSchema>>,
    /// Estimated memory, including that of unused schemas that are not removed yet.
    pub bytes: usize,
    /// Number of schemas after the last sweep; the next one happens at twice that number.
    swept_len: usize,
    /// Time of the last periodic sweep.
    swept_ms: u64,
}

const SWEEP_MIN: usize = 64;
const SWEEP_INTERVAL_MS: u64 = 1_000;

impl SchemaCache {
    /// Returns the estimated memory of a schema with this field list.
    pub fn estimate(text: &str) -> usize {
        // The text, and 4 bytes for each field; a name and its separator are at least two bytes.
        256 + 3 * text.len()
    }

    /// Removes unused schemas.
    pub fn sweep(&mut self) {
        let bytes = &mut self.bytes;
        self.schemas.retain(|(_, _, text), schema| {
            let is_used = schema.strong_count() > 0;
            if !is_used {
                *bytes -= Self::estimate(text);
            }
            is_used
        });
        self.swept_len = self.schemas.len();
    }

    /// Removes unused schemas once per interval.
    pub fn sweep_if_due(&mut self, now_ms: u64) {
        if now_ms >= self.swept_ms + SWEEP_INTERVAL_MS {
            self.swept_ms = now_ms;
            self.sweep();
        }
    }

    /// Returns the schema of a field list on a Kafka connection, for mode COMMAND if `rows`.
    pub fn get(
        &mut self,
        connection: u16,
        text: &str,
        mapping: &Mapping,
        rows: bool,
    ) -> Arc<FieldSchema> {
        let key = (connection, rows, text.into());
        if let Some(schema) = self.schemas.get(&key).and_then(Weak::upgrade) {
            return schema;
        }
        if self.schemas.len() >= (self.swept_len * 2).max(SWEEP_MIN) {
            self.sweep();
        }
        let schema = match rows {
            true => FieldSchema::resolve_rows(text, mapping),
            false => FieldSchema::resolve(text, mapping),
        };
        let schema = Arc::new(schema);
        if self.schemas.insert(key, Arc::downgrade(&schema)).is_none() {
            self.bytes += Self::estimate(text);
        }
        schema
    }
}
