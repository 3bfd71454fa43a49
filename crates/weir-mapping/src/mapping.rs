//! Compiled mapping of one connection: maps records to item names and field values, and checks item
//! names given by clients.

pub(crate) mod explain;

use std::sync::Arc;

use crate::command::{COMMAND_FIELD, CommandMode, KEY_FIELD};
use crate::error::{ExtractionError, ExtractionReason, ExtractionTarget};
use crate::evaluator::Evaluator;
use crate::field_set::FieldSet;
use crate::field_values::FieldValues;
use crate::item_name::CanonicalItem;
use crate::json::NodeId;
use crate::payload::{PathTrees, PayloadReader, WantedPaths};
use crate::record_part::RecordPart;
use crate::record_view::RecordView;
use crate::selector::{Selector, is_tombstone};
use crate::selector_value::SelectorValue;

/// A field or template parameter with its compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct NamedSelector {
    pub(crate) name: Arc<str>,
    pub(crate) expression: Arc<str>,
    pub(crate) selector: Selector,
}

/// Simple item or compiled template: items that a topic's records belong to.
#[derive(Debug)]
pub(crate) struct ItemSource {
    /// Template name; without parameters it is not used.
    pub(crate) name: Arc<str>,
    /// Item name if there are no parameters.
    pub(crate) prefix: Box<str>,
    /// Sorted by name.
    pub(crate) parameters: Vec<TemplateParameter>,
}

#[derive(Debug)]
pub(crate) struct TemplateParameter {
    /// Text before the value: `prefix-[name=` or `,name=`.
    pub(crate) text_before: Box<str>,
    pub(crate) value: NamedSelector,
}

/// Options that apply to all fields.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FieldOptions {
    pub(crate) skip_failed: bool,
    pub(crate) map_non_scalar: bool,
}

/// Compiled mapping of one connection, shared between threads.
#[derive(Debug)]
pub struct Mapping {
    topics: Vec<MappedTopic>,
    /// One source per prefix and set of parameter names.
    schemas: Vec<Arc<ItemSource>>,
    fields: Vec<NamedSelector>,
    options: FieldOptions,
    rows: RowSources,
    item_paths: PathTrees,
    field_paths: PathTrees,
}

/// Conversion of records into rows of mode COMMAND.
#[derive(Debug, Clone, Copy, Default)]
struct RowSources {
    mode: CommandMode,
    key: Option<usize>,
    command: Option<usize>,
    /// Evaluator that determines tombstones, in auto command mode.
    tombstones: Option<Evaluator>,
}

impl RowSources {
    fn of(fields: &[NamedSelector], mode: CommandMode) -> Self {
        let position = |name: &str| fields.iter().position(|field| *field.name == *name);
        let command = position(COMMAND_FIELD);
        let tombstones = command.and_then(|index| match fields[index].selector {
            Selector::Command(evaluator) => Some(evaluator),
            _ => None,
        });
        Self {
            mode,
            key: position(KEY_FIELD),
            command,
            tombstones,
        }
    }
}

/// A mapped topic.
#[derive(Debug)]
struct MappedTopic {
    name: Box<str>,
    sources: Vec<Arc<ItemSource>>,
    /// JSON nodes that its templates need.
    json_nodes: Vec<(RecordPart, NodeId)>,
}

impl MappedTopic {
    fn new(name: Box<str>, sources: Vec<Arc<ItemSource>>) -> Self {
        let parameters = sources.iter().flat_map(|source| &source.parameters);
        let json_nodes = parameters
            .filter_map(|p| p.value.selector.json_node())
            .collect();
        Self {
            name,
            sources,
            json_nodes,
        }
    }
}

impl Mapping {
    pub(crate) fn new(
        topics: Vec<(Box<str>, Vec<Arc<ItemSource>>)>,
        fields: Vec<NamedSelector>,
        options: FieldOptions,
        command_mode: CommandMode,
        item_paths: PathTrees,
        field_paths: PathTrees,
    ) -> Self {
        let mut schemas = Vec::new();
        for source in topics.iter().flat_map(|(_, sources)| sources) {
            let is_same = |other: &Arc<ItemSource>| {
                other.prefix == source.prefix && other.names().eq(source.names())
            };
            if !schemas.iter().any(is_same) {
                schemas.push(Arc::clone(source));
            }
        }
        let topics = topics.into_iter();
        Self {
            topics: topics.map(|(name, s)| MappedTopic::new(name, s)).collect(),
            schemas,
            rows: RowSources::of(&fields, command_mode),
            fields,
            options,
            item_paths,
            field_paths,
        }
    }

    /// Returns the topics to read, in the order of the configuration.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &str> {
        self.topics.iter().map(|topic| &*topic.name)
    }

    /// Returns the names of the configured fields; positions are the indexes in [`FieldValues`].
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &str> {
        self.fields.iter().map(|field| &*field.name)
    }

    /// Returns the set of all fields.
    pub fn all_fields(&self) -> FieldSet {
        FieldSet::all(self.fields.len())
    }

    /// Returns the index of a field, `None` if it is not configured.
    pub fn field_index(&self, name: &str) -> Option<usize> {
        self.fields().position(|field| field == name)
    }

    /// Returns the source of row commands.
    pub fn command_mode(&self) -> CommandMode {
        self.rows.mode
    }

    /// Returns the indexes of the fields `key` and `command` if both are configured.
    pub fn command_fields(&self) -> Option<(usize, usize)> {
        self.rows.key.zip(self.rows.command)
    }

    /// Returns `true` if a template or simple item of a mapped topic has the same prefix and the
    /// same parameter names.
    pub fn admits(&self, item: &CanonicalItem) -> bool {
        let mut schemas = self.schemas.iter();
        schemas.any(|schema| {
            let names = item.parameters().map(|(name, _)| name);
            *schema.prefix == *item.prefix() && schema.names().eq(names)
        })
    }

    /// Writes the items of this record to `out`; none if the topic is not mapped.
    ///
    /// After an error `out` is empty.
    pub fn item_names(
        &self,
        record: &RecordView<'_>,
        out: &mut ItemNames,
    ) -> Result<(), ExtractionError> {
        out.clear();
        // A connection maps few topics, so comparing names is faster than hashing.
        let topics = &mut self.topics.iter().enumerate();
        let Some((position, topic)) = topics.find(|(_, topic)| *topic.name == *record.topic) else {
            return Ok(());
        };
        let (paths, wanted_paths) = (&self.item_paths, WantedPaths::Topic(position));
        if out
            .payloads
            .next_record(paths, |before| *before == wanted_paths)
        {
            out.payloads
                .want(paths, wanted_paths, topic.json_nodes.iter().copied());
        }
        for source in &topic.sources {
            let start = out.text.len();
            match source.expand(record, out) {
                Ok(true) => out.push(start),
                Ok(false) => out.reject(start),
                Err(error) => {
                    out.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Writes the values of the wanted fields to `out`; other fields are skipped.
    ///
    /// If a wanted field cannot be extracted, it is skipped or an error is returned, depending on
    /// the configuration. After an error `out` is empty. Other fields are not evaluated, so they
    /// cannot fail.
    pub fn field_values(
        &self,
        record: &RecordView<'_>,
        wanted: &FieldSet,
        out: &mut FieldValues,
    ) -> Result<(), ExtractionError> {
        out.reset(self.fields.len());
        let paths = &self.field_paths;
        let reader = out.payloads_mut();
        if reader.next_record(
            paths,
            |before| matches!(before, WantedPaths::Fields(set) if set == wanted),
        ) {
            let fields = wanted.iter().filter_map(|index| self.fields.get(index));
            let json_nodes = fields.filter_map(|field| field.selector.json_node());
            reader.want(paths, WantedPaths::Fields(wanted.clone()), json_nodes);
        }
        let rows = &self.rows;
        let is_deletion = rows
            .tombstones
            .is_some_and(|evaluator| is_tombstone(record, evaluator));
        for index in wanted.iter() {
            let Some(field) = self.fields.get(index) else {
                break;
            };
            if is_deletion && Some(index) != rows.key && Some(index) != rows.command {
                // A deleted row has no other values.
                continue;
            }
            if let Err(reason) = self.set_field(index, field, record, out) {
                out.clear();
                return Err(ExtractionError {
                    target: ExtractionTarget::Field(Arc::clone(&field.name)),
                    expression: Arc::clone(&field.expression),
                    reason,
                });
            }
        }
        Ok(())
    }

    fn set_field(
        &self,
        index: usize,
        field: &NamedSelector,
        record: &RecordView<'_>,
        out: &mut FieldValues,
    ) -> Result<(), ExtractionReason> {
        let start = out.text_len();
        let (payloads, text) = out.parts_mut();
        let complex = self.options.map_non_scalar;
        match field.selector.append(record, complex, payloads, text) {
            Ok(SelectorValue::Text) if out.set_text(index, start) => Ok(()),
            Ok(SelectorValue::Text) => Err(ExtractionReason::TooLarge),
            Ok(SelectorValue::Null) => {
                out.set_null(index);
                Ok(())
            }
            Err(reason @ ExtractionReason::Payload(_)) => Err(reason),
            Err(_) if self.options.skip_failed => {
                out.drop_text(start);
                Ok(())
            }
            Err(reason) => Err(reason),
        }
    }
}

impl ItemSource {
    pub(crate) fn simple(name: &str) -> Self {
        Self {
            name: name.into(),
            prefix: name.into(),
            parameters: Vec::new(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters
            .iter()
            .map(|parameter| &*parameter.value.name)
    }

    /// Appends the canonical name. Returns `false` if a value contains a comma.
    ///
    /// A client cannot write such a value, and the name would parse as that of another item.
    fn expand(
        &self,
        record: &RecordView<'_>,
        out: &mut ItemNames,
    ) -> Result<bool, ExtractionError> {
        let ItemNames { text, payloads, .. } = out;
        if self.parameters.is_empty() {
            text.push_str(&self.prefix);
            return Ok(true);
        }
        let is_single = self.parameters.len() == 1;
        for parameter in &self.parameters {
            text.push_str(&parameter.text_before);
            let start = text.len();
            match parameter
                .value
                .selector
                .append(record, false, payloads, text)
            {
                Ok(SelectorValue::Text) if has_comma(&text[start..]) => return Ok(false),
                Ok(SelectorValue::Text) => {}
                Ok(SelectorValue::Null) if is_single => text.push_str("null"),
                Ok(SelectorValue::Null) => {
                    return Err(self.error(&parameter.value, ExtractionReason::NullParameter));
                }
                Err(reason) => return Err(self.error(&parameter.value, reason)),
            }
        }
        text.push(']');
        Ok(true)
    }

    fn error(&self, parameter: &NamedSelector, reason: ExtractionReason) -> ExtractionError {
        ExtractionError {
            target: ExtractionTarget::Template {
                template: Arc::clone(&self.name),
                parameter: Arc::clone(&parameter.name),
            },
            expression: Arc::clone(&parameter.expression),
            reason,
        }
    }
}

fn has_comma(value: &str) -> bool {
    memchr::memchr(b',', value.as_bytes()).is_some()
}

/// Reusable buffer for the item names of a record; its memory is reused between records.
#[derive(Debug, Clone, Default)]
pub struct ItemNames {
    text: String,
    ends: Vec<usize>,
    unnameable: usize,
    payloads: PayloadReader,
}

impl ItemNames {
    /// Creates an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the names but not the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.unnameable = 0;
    }

    /// Returns the number of distinct names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if the record belongs to no item.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the number of templates that yielded no item for the last record because of a comma.
    pub fn unnameable(&self) -> usize {
        self.unnameable
    }

    /// Returns the canonical names, each once.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |&end| &self.text[std::mem::replace(&mut start, end)..end])
    }

    /// Ends the name that starts at `start`. A repeated name is dropped.
    fn push(&mut self, start: usize) {
        let repeated = self.iter().any(|name| *name == self.text[start..]);
        if repeated {
            self.text.truncate(start);
        } else {
            self.ends.push(self.text.len());
        }
    }

    fn reject(&mut self, start: usize) {
        self.text.truncate(start);
        self.unnameable += 1;
    }
}

#[cfg(test)]
mod tests;
