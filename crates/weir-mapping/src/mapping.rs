//! The compiled mapping of one connection: record to item names, record to field values, and
//! which items a client may name.

pub(crate) mod explain;

use std::fmt;
use std::sync::Arc;

use crate::command::{COMMAND_FIELD, CommandMode, KEY_FIELD};
use crate::error::{ExtractionError, ExtractionReason, ExtractionTarget, ItemNameError};
use crate::evaluator::Evaluator;
use crate::field_set::FieldSet;
use crate::field_values::FieldValues;
use crate::item_name::CanonicalItem;
use crate::json::NodeId;
use crate::payload::{PayloadReader, Plans, WantedPaths};
use crate::record_part::RecordPart;
use crate::record_view::RecordView;
use crate::selector::{Selector, is_tombstone};
use crate::selector_value::SelectorValue;

/// The name of a configured field; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldName(Arc<str>);

impl FieldName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A field with its compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct CompiledField {
    pub(crate) name: Arc<str>,
    pub(crate) expression: Arc<str>,
    pub(crate) selector: Selector,
}

/// What a topic's records are delivered as.
#[derive(Debug, Clone)]
pub(crate) enum ItemSource {
    /// One fixed item; also what a template without parameters is.
    Simple(Box<str>),
    /// One item for each combination of parameter values.
    Template(Arc<Template>),
}

/// A template with its compiled expressions; parameters are sorted by name.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) name: Arc<str>,
    pub(crate) prefix: Box<str>,
    pub(crate) parameters: Vec<TemplateParameter>,
}

#[derive(Debug)]
pub(crate) struct TemplateParameter {
    pub(crate) name: Arc<str>,
    pub(crate) expression: Arc<str>,
    pub(crate) selector: Selector,
    /// What stands before the value: `prefix-[name=` or `,name=`.
    pub(crate) lead: Box<str>,
}

/// Options that apply to all fields.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FieldOptions {
    pub(crate) skip_failed: bool,
    pub(crate) map_non_scalar: bool,
}

/// The mapping of one connection, ready to run. Shared by reference between threads.
#[derive(Debug)]
pub struct Mapping {
    topics: Vec<MappedTopic>,
    schemas: Vec<ItemSchema>,
    fields: Vec<CompiledField>,
    names: Vec<FieldName>,
    options: FieldOptions,
    rows: Rows,
    item_plans: Plans,
    field_plans: Plans,
}

/// How records become rows of mode COMMAND.
#[derive(Debug, Clone, Copy, Default)]
struct Rows {
    mode: CommandMode,
    key: Option<usize>,
    command: Option<usize>,
    /// In auto command mode: how tombstones are told.
    tombstones: Option<Evaluator>,
}

impl Rows {
    fn of(fields: &[CompiledField], mode: CommandMode) -> Self {
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
    sources: Vec<ItemSource>,
    /// The JSON places its templates need.
    places: Vec<(RecordPart, NodeId)>,
}

impl MappedTopic {
    fn new(name: Box<str>, sources: Vec<ItemSource>) -> Self {
        let parameters = sources.iter().flat_map(ItemSource::parameters);
        let places = parameters.filter_map(|p| p.selector.place()).collect();
        Self {
            name,
            sources,
            places,
        }
    }
}

/// Prefix and sorted parameter names of the items one source can yield.
#[derive(Debug, PartialEq, Eq)]
struct ItemSchema {
    prefix: Box<str>,
    parameters: Vec<Arc<str>>,
}

impl Mapping {
    pub(crate) fn new(
        topics: Vec<(Box<str>, Vec<ItemSource>)>,
        fields: Vec<CompiledField>,
        options: FieldOptions,
        command_mode: CommandMode,
        item_plans: Plans,
        field_plans: Plans,
    ) -> Self {
        let mut schemas = Vec::new();
        for source in topics.iter().flat_map(|(_, sources)| sources) {
            let schema = ItemSchema::of(source);
            if !schemas.contains(&schema) {
                schemas.push(schema);
            }
        }
        let names = fields
            .iter()
            .map(|field| FieldName(Arc::clone(&field.name)))
            .collect();
        let topics = topics.into_iter();
        Self {
            topics: topics.map(|(name, s)| MappedTopic::new(name, s)).collect(),
            schemas,
            rows: Rows::of(&fields, command_mode),
            fields,
            names,
            options,
            item_plans,
            field_plans,
        }
    }

    /// Topics to read, in the order of the configuration.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &str> {
        self.topics.iter().map(|topic| &*topic.name)
    }

    /// Configured fields; the position is the index that [`FieldValues`] uses.
    pub fn fields(&self) -> &[FieldName] {
        &self.names
    }

    /// The set of all fields.
    pub fn all_fields(&self) -> FieldSet {
        FieldSet::all(self.fields.len())
    }

    /// Index of a field, `None` for a name that is not configured.
    pub fn field_index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|field| field.as_str() == name)
    }

    /// How records become rows of mode COMMAND.
    pub fn command_mode(&self) -> CommandMode {
        self.rows.mode
    }

    /// Indexes of the fields `key` and `command`, if both are there.
    pub fn command_fields(&self) -> Option<(usize, usize)> {
        self.rows.key.zip(self.rows.command)
    }

    /// The canonical form of an item name as a client wrote it.
    ///
    /// A name that can be read is not yet one that can be subscribed: see [`Self::admits`].
    pub fn canonical_item(&self, written: &str) -> Result<CanonicalItem, ItemNameError> {
        CanonicalItem::parse(written)
    }

    /// True if some template or simple item of a mapped topic has the same prefix and exactly the
    /// same parameter names.
    pub fn admits(&self, item: &CanonicalItem) -> bool {
        self.schemas.iter().any(|schema| schema.admits(item))
    }

    /// Fills `out` with the items this record belongs to; none if the topic is not mapped.
    ///
    /// On an error `out` is empty.
    pub fn item_names(
        &self,
        record: &RecordView<'_>,
        out: &mut ItemNames,
    ) -> Result<(), ExtractionError> {
        out.clear();
        // A connection maps a handful of topics; comparing beats hashing there.
        let topics = &mut self.topics.iter().enumerate();
        let Some((position, topic)) = topics.find(|(_, topic)| *topic.name == *record.topic) else {
            return Ok(());
        };
        let (plans, aim) = (&self.item_plans, WantedPaths::Topic(position));
        if out.payloads.turn(plans, |before| *before == aim) {
            out.payloads.want(plans, aim, topic.places.iter().copied());
        }
        for source in &topic.sources {
            let start = out.text.len();
            match source {
                ItemSource::Simple(name) => {
                    out.text.push_str(name);
                    out.push(start);
                }
                ItemSource::Template(template) => match template.expand(record, out) {
                    Ok(true) => out.push(start),
                    Ok(false) => out.reject(start),
                    Err(error) => {
                        out.clear();
                        return Err(error);
                    }
                },
            }
        }
        Ok(())
    }

    /// Fills `out` with the values of the wanted fields; the others are skipped.
    ///
    /// A wanted field that cannot be extracted is skipped where the configuration says so,
    /// otherwise it is an error and `out` is empty. Fields that are not wanted are not looked at:
    /// they cannot fail.
    pub fn field_values(
        &self,
        record: &RecordView<'_>,
        wanted: &FieldSet,
        out: &mut FieldValues,
    ) -> Result<(), ExtractionError> {
        out.reset(self.fields.len());
        let plans = &self.field_plans;
        let turned = out.payloads_mut();
        if turned.turn(
            plans,
            |before| matches!(before, WantedPaths::Fields(set) if set == wanted),
        ) {
            let fields = wanted.iter().filter_map(|index| self.fields.get(index));
            let places = fields.filter_map(|field| field.selector.place());
            turned.want(plans, WantedPaths::Fields(wanted.clone()), places);
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
                // A row that goes has no other values.
                continue;
            }
            if let Err(reason) = self.set_field(index, field, record, out) {
                out.clear();
                return Err(ExtractionError {
                    place: ExtractionTarget::Field(Arc::clone(&field.name)),
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
        field: &CompiledField,
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
    fn parameters(&self) -> &[TemplateParameter] {
        match self {
            Self::Simple(_) => &[],
            Self::Template(template) => &template.parameters,
        }
    }
}

impl ItemSchema {
    fn of(source: &ItemSource) -> Self {
        match source {
            ItemSource::Simple(name) => Self {
                prefix: name.clone(),
                parameters: Vec::new(),
            },
            ItemSource::Template(template) => Self {
                prefix: template.prefix.clone(),
                parameters: template
                    .parameters
                    .iter()
                    .map(|p| Arc::clone(&p.name))
                    .collect(),
            },
        }
    }

    fn admits(&self, item: &CanonicalItem) -> bool {
        let parameters = item.parameters();
        *self.prefix == *item.prefix()
            && self.parameters.len() == parameters.len()
            && self
                .parameters
                .iter()
                .zip(parameters)
                .all(|(name, (other, _))| **name == *other)
    }
}

impl Template {
    /// Appends the canonical name; false if a value holds a comma.
    ///
    /// No client can write such a value, and read back the name would be that of another item.
    fn expand(
        &self,
        record: &RecordView<'_>,
        out: &mut ItemNames,
    ) -> Result<bool, ExtractionError> {
        let ItemNames { text, payloads, .. } = out;
        let single = self.parameters.len() == 1;
        for parameter in &self.parameters {
            text.push_str(&parameter.lead);
            let start = text.len();
            match parameter.selector.append(record, false, payloads, text) {
                Ok(SelectorValue::Text) if has_comma(&text[start..]) => return Ok(false),
                Ok(SelectorValue::Text) => {}
                Ok(SelectorValue::Null) if single => text.push_str("null"),
                Ok(SelectorValue::Null) => {
                    return Err(self.error(parameter, ExtractionReason::NullParameter));
                }
                Err(reason) => return Err(self.error(parameter, reason)),
            }
        }
        text.push(']');
        Ok(true)
    }

    fn error(&self, parameter: &TemplateParameter, reason: ExtractionReason) -> ExtractionError {
        ExtractionError {
            place: ExtractionTarget::Template {
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

/// A reusable buffer for the item names of a record; it keeps its memory between records.
#[derive(Debug, Clone, Default)]
pub struct ItemNames {
    text: String,
    ends: Vec<usize>,
    unnameable: usize,
    payloads: PayloadReader,
}

impl ItemNames {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the names and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.unnameable = 0;
    }

    /// Number of distinct names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if the record belongs to no item.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Templates of the last record left out because a value holds a comma.
    pub fn unnameable(&self) -> usize {
        self.unnameable
    }

    /// The canonical names; each occurs once.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |&end| &self.text[std::mem::replace(&mut start, end)..end])
    }

    /// Ends the name that starts at `start`; a name already there is dropped.
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
