//! Compiled mapping of one connection: maps records to item names and field values, and checks item
//! names given by clients.

pub(crate) mod documents;
pub(crate) mod explain;
mod matched_topics;

use std::sync::{Arc, OnceLock};

use regex::bytes::Regex;
use weir_formats::expression::Expression;
use weir_formats::json::NodeId;
use weir_formats::selector_value::SelectorValue;

use self::matched_topics::MatchedTopics;
use crate::command::{COMMAND_FIELD, CommandMode, KEY_FIELD};
use crate::dynamic_fields::{DynamicField, DynamicFieldError, DynamicFields};
use crate::error::{ExtractionError, ExtractionReason, ExtractionTarget};
use crate::field_set::FieldSet;
use crate::field_values::FieldValues;
use crate::item_name::CanonicalItem;
use crate::payload::{PartConfig, PathTrees, PayloadReader, WantedPaths};
use crate::record_filter::{self, FilterValues, RecordFilterError, RecordFilters};
use crate::record_part::{KeyAndValue, RecordPart};
use crate::record_view::RecordView;
use crate::schema::DocumentFormats;
use crate::selector::{Selector, is_tombstone};
use crate::wildcard::{MembersSelector, Wildcard};

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
    /// Template name; not used for a simple item.
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
    shapes: Vec<Arc<ItemSource>>,
    fields: Vec<NamedSelector>,
    options: FieldOptions,
    rows: RowSources,
    item_paths: PathTrees,
    field_paths: PathTrees,
    documents: DocumentFormats,
    /// Patterns of the topics, in their order; `None` if they are names.
    patterns: Option<Vec<Regex>>,
    /// Compiled `field.*`.
    wildcard: Option<Box<Wildcard>>,
    /// Evaluators of keys and values.
    parts: KeyAndValue<PartConfig>,
    /// Expressions of item rules, set after the mapping is compiled.
    filters: OnceLock<RecordFilters>,
}

/// Conversion of records into rows of mode COMMAND.
#[derive(Debug, Clone, Copy, Default)]
struct RowSources {
    mode: CommandMode,
    key: Option<usize>,
    command: Option<usize>,
    /// `Some` in auto command mode; `true` if a value of zero bytes is a tombstone.
    tombstones: Option<bool>,
}

impl RowSources {
    fn of(fields: &[NamedSelector], mode: CommandMode) -> Self {
        let position = |name: &str| fields.iter().position(|field| *field.name == *name);
        let command = position(COMMAND_FIELD);
        let tombstones = command.and_then(|index| match fields[index].selector {
            Selector::Command { is_null_if_empty } => Some(is_null_if_empty),
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

impl RowSources {
    /// Assigns indexes to `key` and `command` if they are not configured, since a record may have
    /// them.
    fn reserve(&mut self, dynamic: &DynamicFields) -> Vec<Arc<DynamicField>> {
        let mut reserved = Vec::new();
        for (source, name) in [
            (&mut self.key, KEY_FIELD),
            (&mut self.command, COMMAND_FIELD),
        ] {
            if source.is_none() {
                // An empty table has room for two short names.
                let field = dynamic.use_names(std::iter::once(name)).unwrap_or_default();
                *source = field.first().map(|field| field.index);
                reserved.extend(field);
            }
        }
        reserved
    }
}

/// A topic or topic pattern as configured, with its items and templates.
pub(crate) struct TopicSources {
    pub(crate) name: Box<str>,
    pub(crate) sources: Vec<Arc<ItemSource>>,
    /// The compiled name, with `map.regex.enable`.
    pub(crate) pattern: Option<Regex>,
}

/// A topic or topic pattern with its sources and the document nodes that these need.
#[derive(Debug, Clone)]
pub(crate) struct MappedTopic {
    name: Box<str>,
    sources: Vec<Arc<ItemSource>>,
    /// Document nodes that its templates need.
    document_nodes: Vec<(RecordPart, NodeId)>,
}

impl MappedTopic {
    fn new(name: Box<str>, sources: Vec<Arc<ItemSource>>) -> Self {
        let parameters = sources.iter().flat_map(|source| &source.parameters);
        let document_nodes = parameters
            .filter_map(|p| p.value.selector.document_node())
            .collect();
        Self {
            name,
            sources,
            document_nodes,
        }
    }
}

impl Mapping {
    pub(crate) fn new(
        topics: Vec<TopicSources>,
        fields: Vec<NamedSelector>,
        options: FieldOptions,
        command_mode: CommandMode,
        (item_paths, field_paths): (PathTrees, PathTrees),
        wildcard: Option<(Arc<str>, MembersSelector)>,
        parts: KeyAndValue<PartConfig>,
    ) -> Self {
        let mut shapes = Vec::new();
        for source in topics.iter().flat_map(|topic| &topic.sources) {
            let is_same = |other: &Arc<ItemSource>| {
                other.prefix == source.prefix && other.names().eq(source.names())
            };
            if !shapes.iter().any(is_same) {
                shapes.push(Arc::clone(source));
            }
        }
        let patterns: Vec<_> = topics
            .iter()
            .filter_map(|topic| topic.pattern.clone())
            .collect();
        // With `map.regex.enable`, every topic has a pattern.
        let patterns = (!patterns.is_empty()).then_some(patterns);
        let topics = topics.into_iter();
        let mut rows = RowSources::of(&fields, command_mode);
        let wildcard = wildcard.map(|(expression, selector)| {
            let dynamic = DynamicFields::new(fields.len());
            let reserved = rows.reserve(&dynamic);
            Box::new(Wildcard {
                expression,
                selector,
                fields: dynamic,
                _reserved: reserved,
            })
        });
        let topics = topics.map(|one| MappedTopic::new(one.name, one.sources));
        let topics: Vec<_> = topics.collect();
        let of_items = topics
            .iter()
            .flat_map(|topic| topic.document_nodes.iter().copied());
        let of_fields = fields
            .iter()
            .filter_map(|field| field.selector.document_node());
        let members = wildcard
            .iter()
            .filter_map(|one| one.selector.document_node());
        let mut documents = DocumentFormats::default();
        for (part, _) in of_items.chain(of_fields).chain(members) {
            *documents.of_mut(part) = Some(Arc::clone(&field_paths.of(part).format));
        }
        Self {
            topics,
            patterns,
            shapes,
            rows,
            fields,
            options,
            item_paths,
            field_paths,
            documents,
            wildcard,
            parts,
            filters: OnceLock::new(),
        }
    }

    /// Checks that an expression can distinguish records.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check_record_filter(&self, expression: &Expression) -> Result<(), RecordFilterError> {
        record_filter::check(expression, &self.parts)
    }

    /// Sets the expressions whose values distinguish records. Only the first call has an effect.
    /// Absent expressions and those that [`Self::check_record_filter`] rejects have no value in any
    /// record.
    pub fn set_record_filters(&self, expressions: &[Option<Expression>]) {
        self.filters
            .get_or_init(|| RecordFilters::new(expressions, &self.parts));
    }

    /// Prepares a buffer for the filters of the next record.
    pub fn begin_filters(&self, values: &mut FilterValues) {
        if let Some(filters) = self.filters.get() {
            filters.begin(values);
        }
    }

    /// Returns the value of a record for the expression at a position; `None` if it is absent, null
    /// or not a single value.
    pub fn filter_value<'a>(
        &self,
        position: usize,
        record: &RecordView<'_>,
        values: &'a mut FilterValues,
    ) -> Option<&'a str> {
        self.filters.get()?.value(position, record, values)
    }

    /// Returns `true` if the topics are patterns.
    pub fn has_patterns(&self) -> bool {
        self.patterns.is_some()
    }

    /// Returns `true` if a topic is mapped.
    pub fn maps_topic(&self, topic: &str) -> bool {
        self.mapped(topic).next().is_some()
    }

    /// Returns the configured topics or patterns that match a topic.
    pub fn patterns_of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a str> {
        self.mapped(topic).map(|mapped| &*mapped.name)
    }

    fn mapped<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a MappedTopic> {
        let matches = move |(position, mapped): &(usize, &MappedTopic)| match &self.patterns {
            None => *mapped.name == *topic,
            Some(patterns) => patterns[*position].is_match(topic.as_bytes()),
        };
        let topics = self.topics.iter().enumerate().filter(matches);
        topics.map(|(_, mapped)| mapped)
    }

    /// Returns the items and templates of a topic, each once.
    fn sources_of(&self, topic: &str) -> Vec<Arc<ItemSource>> {
        let mut sources: Vec<Arc<ItemSource>> = Vec::new();
        for mapped in self.mapped(topic) {
            for source in &mapped.sources {
                if !sources.iter().any(|known| Arc::ptr_eq(known, source)) {
                    sources.push(Arc::clone(source));
                }
            }
        }
        sources
    }

    /// Returns the topics to read, or their patterns, in the order of the configuration.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &str> {
        self.topics.iter().map(|topic| &*topic.name)
    }

    /// Returns the names of the configured fields; positions are the indexes in [`FieldValues`].
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &str> {
        self.fields.iter().map(|field| &*field.name)
    }

    /// Returns the set of all fields: the configured ones, and the dynamic ones that have an index.
    pub fn all_fields(&self) -> FieldSet {
        let wildcard = self.wildcard.as_ref();
        FieldSet::all(wildcard.map_or(self.fields.len(), |one| one.fields.index_end()))
    }

    /// Returns the index of a field, `None` if it is neither configured nor a dynamic field in use.
    pub fn field_index(&self, name: &str) -> Option<usize> {
        let configured = self.fields().position(|field| field == name);
        configured.or_else(|| self.wildcard.as_ref()?.fields.index(name))
    }

    /// Returns the expression of `field.*`, `None` if all fields are configured by name.
    pub fn wildcard(&self) -> Option<&str> {
        self.wildcard.as_ref().map(|wildcard| &*wildcard.expression)
    }

    /// Assigns indexes to the names that are not configured fields. They are valid while the
    /// returned values exist. Without `field.*` there are none.
    ///
    /// # Errors
    /// A name is too long, or the table of dynamic fields is full.
    pub fn use_dynamic_fields<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Arc<DynamicField>>, DynamicFieldError> {
        let Some(wildcard) = &self.wildcard else {
            return Ok(Vec::new());
        };
        let is_configured = |name: &&str| self.fields().any(|field| field == *name);
        wildcard
            .fields
            .use_names(names.filter(|name| !is_configured(name)))
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
        let mut shapes = self.shapes.iter();
        shapes.any(|shape| {
            let names = item.parameters().map(|(name, _)| name);
            *shape.prefix == *item.prefix() && shape.names().eq(names)
        })
    }

    /// Returns the prefix and the sorted parameter names of each template and simple item, some
    /// repeatedly.
    pub fn item_shapes(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        let shapes = self.shapes.iter();
        shapes.map(|shape| (&*shape.prefix, shape.names().collect()))
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
        if self.patterns.is_some() {
            let (position, topic) = out.matched_topic(self, record.topic);
            return self.expand_all(record, position, &topic, out);
        }
        // A connection maps few topics, so comparing names is faster than hashing.
        let topics = &mut self.topics.iter().enumerate();
        let Some((position, topic)) = topics.find(|(_, topic)| *topic.name == *record.topic) else {
            return Ok(());
        };
        self.expand_all(record, position, topic, out)
    }

    /// Writes the items of a topic; `position` identifies it in this buffer.
    #[inline]
    fn expand_all(
        &self,
        record: &RecordView<'_>,
        position: usize,
        topic: &MappedTopic,
        out: &mut ItemNames,
    ) -> Result<(), ExtractionError> {
        let (paths, wanted_paths) = (&self.item_paths, WantedPaths::Topic(position));
        if out
            .payloads
            .next_record(paths, |before| *before == wanted_paths)
        {
            out.payloads
                .want(paths, wanted_paths, topic.document_nodes.iter().copied());
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
        let wildcard = match &self.wildcard {
            Some(wildcard) if wanted.end() > self.fields.len() => Some(&**wildcard),
            _ => None,
        };
        out.reset(wildcard.map_or(self.fields.len(), |_| wanted.end()));
        let paths = &self.field_paths;
        let reader = out.payloads_mut();
        if reader.next_record(
            paths,
            |before| matches!(before, WantedPaths::Fields(set) if set == wanted),
        ) {
            let fields = wanted.iter().filter_map(|index| self.fields.get(index));
            let nodes = fields.filter_map(|field| field.selector.document_node());
            let members = wildcard.and_then(|wildcard| wildcard.selector.document_node());
            let nodes = nodes.chain(members);
            reader.want(paths, WantedPaths::Fields(wanted.clone()), nodes);
        }
        let rows = &self.rows;
        let is_deletion = rows
            .tombstones
            .is_some_and(|is_null_if_empty| is_tombstone(record, is_null_if_empty));
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
        match wildcard {
            // A deleted row has no other values.
            Some(wildcard) if !is_deletion => {
                self.set_dynamic_fields(wildcard, record, wanted, out)
            }
            _ => Ok(()),
        }
    }

    fn set_dynamic_fields(
        &self,
        wildcard: &Wildcard,
        record: &RecordView<'_>,
        wanted: &FieldSet,
        out: &mut FieldValues,
    ) -> Result<(), ExtractionError> {
        match wildcard.extract(record, wanted, out) {
            Ok(()) => Ok(()),
            Err(reason) if self.options.skip_failed && !reason.is_fatal() => Ok(()),
            Err(reason) => {
                out.clear();
                Err(wildcard.error(reason))
            }
        }
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
            Err(reason) if reason.is_deserialization() => Err(reason),
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

/// Buffer for the item names of a record; its memory is reused between records.
#[derive(Debug, Clone, Default)]
pub struct ItemNames {
    text: String,
    ends: Vec<usize>,
    unnameable: usize,
    payloads: PayloadReader,
    matched: MatchedTopics<MappedTopic>,
}

impl ItemNames {
    /// Returns the position and the items of a topic that is mapped by patterns.
    fn matched_topic(&mut self, mapping: &Mapping, topic: &str) -> (usize, Arc<MappedTopic>) {
        let matched = || MappedTopic::new(topic.into(), mapping.sources_of(topic));
        self.matched.find(topic, matched)
    }

    /// Creates an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the names and keeps the memory.
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

    /// Drops the name that starts at `start`, which cannot be written because of a comma.
    fn reject(&mut self, start: usize) {
        self.text.truncate(start);
        self.unnameable += 1;
    }
}

#[cfg(test)]
mod tests;
