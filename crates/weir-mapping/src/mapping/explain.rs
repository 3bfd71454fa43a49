//! Step-by-step explanation of the mapping of one record, for display; not optimized.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use thiserror::Error;
use weir_formats::selector_value::SelectorValue;

use super::{ItemNames, ItemSource, Mapping, NamedSelector};
use crate::error::{ExtractionError, ExtractionReason};
use crate::field_set::FieldSet;
use crate::field_values::FieldValues;
use crate::item_name::CanonicalItem;
use crate::payload::{PathTrees, PayloadReader, WantedPaths};
use crate::record_view::RecordView;
use crate::wildcard::WILDCARD;

/// Explanation of the mapping of a record.
#[derive(Debug)]
pub struct Explanation {
    /// Results of the items and templates of the topic; empty if the topic is not mapped.
    pub sources: Vec<SourceOutcome>,
    /// Items that the record belongs to, or the error that prevents finding them.
    pub items: Result<Vec<String>, ExtractionError>,
    /// Each wanted field, extracted separately; of dynamic ones, those that the record has.
    pub fields: Vec<Extracted>,
    /// Error of extracting the wanted fields together.
    pub fields_error: Option<ExtractionError>,
}

/// An expression with its result.
#[derive(Debug)]
pub struct Extracted {
    /// Name of the field or template parameter.
    pub name: Arc<str>,
    /// Expression.
    pub expression: Arc<str>,
    /// Text, `None` for null.
    pub outcome: Result<Option<String>, ExtractionReason>,
}

/// Result of a simple item or a template.
#[derive(Debug)]
pub struct SourceOutcome {
    /// Name of the template, `None` for a simple item.
    pub template: Option<Arc<str>>,
    /// Template as in the configuration, or the simple item.
    pub text: String,
    /// Parameters of the template, sorted by name.
    pub parameters: Vec<Extracted>,
    /// Name of the item.
    pub item: Result<String, NoItem>,
    prefix: String,
}

/// Reason why a template or simple item does not yield an item, as text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NoItem(String);

impl SourceOutcome {
    /// Checks if this template or simple item routes the record to `item`.
    ///
    /// # Errors
    /// The first difference.
    pub fn matches(&self, item: &CanonicalItem) -> Result<(), NoItem> {
        let (prefix, requested) = (&self.prefix, item.prefix());
        if prefix != requested {
            return Err(NoItem(format!(
                "its items begin with \"{prefix}\", not with \"{requested}\""
            )));
        }
        let actual: Vec<_> = self.parameters.iter().map(|p| &*p.name).collect();
        let requested: Vec<_> = item.parameters().map(|(name, _)| name).collect();
        if actual != requested {
            let list = |names: &[&str]| match names {
                [] => "no parameters".to_owned(),
                names => format!("the parameters {}", names.join(", ")),
            };
            let (actual, requested) = (list(&actual), list(&requested));
            return Err(NoItem(format!(
                "its items have {actual}, this one has {requested}"
            )));
        }
        if *self.item.as_ref().map_err(NoItem::clone)? == item.as_str() {
            return Ok(());
        }
        let pairs = self.parameters.iter().zip(item.parameters());
        let mut pairs = pairs.map(|(actual, (name, requested))| (name, actual.text(), requested));
        let different = pairs.find(|(_, actual, requested)| actual != requested);
        let (name, actual, requested) = different.unwrap_or_default();
        Err(NoItem(format!(
            "{name} is \"{actual}\" in the record, not \"{requested}\""
        )))
    }
}

impl Extracted {
    /// Returns the text as used in an item name.
    fn text(&self) -> &str {
        match &self.outcome {
            Ok(Some(text)) => text,
            Ok(None) | Err(_) => "null",
        }
    }
}

impl Mapping {
    /// Explains how a record is mapped to items and to the `wanted` fields.
    pub fn explain(&self, record: &RecordView<'_>, wanted: &FieldSet) -> Explanation {
        let mut names = ItemNames::new();
        let items = self.item_names(record, &mut names);
        let mut values = FieldValues::new();
        let together = self.field_values(record, wanted, &mut values);
        let fields = wanted.iter().filter_map(|index| self.fields.get(index));
        let complex = self.options.map_non_scalar;
        let extracted = fields.map(|field| extract(field, &self.field_paths, complex, record));
        let is_wanted = |name: &str| {
            let index = self.field_index(name);
            index.is_some_and(|index| wanted.contains(index))
        };
        let dynamic = self.discover(record).into_iter();
        let dynamic = dynamic.filter(|field| field.outcome.is_err() || is_wanted(&field.name));
        let sources = self.sources_of(record.topic);
        Explanation {
            sources: sources
                .iter()
                .map(|source| self.explain_source(source, record))
                .collect(),
            items: items.map(|()| names.iter().map(str::to_owned).collect()),
            fields: extracted.chain(dynamic).collect(),
            fields_error: together.err(),
        }
    }

    /// Returns the dynamic fields of a record, for [`Self::use_dynamic_fields`].
    pub fn dynamic_names(&self, record: &RecordView<'_>) -> Vec<Arc<str>> {
        let fields = self.discover(record).into_iter();
        let found = fields.filter(|field| field.outcome.is_ok());
        found.map(|field| field.name).collect()
    }

    /// Extracts all dynamic fields, in the order of the record. After an error there is only one,
    /// named like the parameter.
    fn discover(&self, record: &RecordView<'_>) -> Vec<Extracted> {
        let Some(wildcard) = &self.wildcard else {
            return Vec::new();
        };
        let field = |name, outcome| Extracted {
            name,
            expression: Arc::clone(&wildcard.expression),
            outcome,
        };
        let mut payloads = PayloadReader::default();
        payloads.next_record(&self.field_paths, |_| false);
        let wanted = WantedPaths::Fields(FieldSet::empty());
        let nodes = wildcard.selector.document_node().into_iter();
        payloads.want(&self.field_paths, wanted, nodes);
        let mut found: Vec<Extracted> = Vec::new();
        let mut positions: HashMap<Arc<str>, usize> = HashMap::new();
        let mut add = |name: &str, kind: SelectorValue, text: &str| {
            if self.fields().any(|configured| configured == name) {
                return;
            }
            let name: Arc<str> = name.into();
            let value = (kind == SelectorValue::Text).then(|| text.to_owned());
            match positions.entry(Arc::clone(&name)) {
                Entry::Occupied(position) => found[*position.get()].outcome = Ok(value),
                Entry::Vacant(position) => {
                    position.insert(found.len());
                    found.push(field(name, Ok(value)));
                }
            }
        };
        match wildcard.selector.members(record, &mut payloads, &mut add) {
            Ok(()) => found,
            Err(reason) => vec![field(WILDCARD.into(), Err(reason))],
        }
    }

    fn explain_source(&self, source: &ItemSource, record: &RecordView<'_>) -> SourceOutcome {
        let prefix = source.prefix.to_string();
        if source.parameters.is_empty() {
            return SourceOutcome {
                template: None,
                text: prefix.clone(),
                parameters: Vec::new(),
                item: Ok(prefix.clone()),
                prefix,
            };
        }
        let parameters = source.parameters.iter();
        let written = parameters
            .clone()
            .map(|p| format!("{}={}", p.value.name, p.value.expression));
        let written: Vec<_> = written.collect();
        let parameters = parameters.map(|p| extract(&p.value, &self.item_paths, false, record));
        let parameters: Vec<_> = parameters.collect();
        SourceOutcome {
            template: Some(Arc::clone(&source.name)),
            text: format!("{prefix}-#{{{}}}", written.join(",")),
            item: item_of(&prefix, &parameters),
            parameters,
            prefix,
        }
    }
}

fn item_of(prefix: &str, parameters: &[Extracted]) -> Result<String, NoItem> {
    let single = parameters.len() == 1;
    let mut list = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let (name, expression) = (&parameter.name, &parameter.expression);
        let failed = |reason: &ExtractionReason| {
            NoItem(format!("parameter \"{name}\" by [{expression}]: {reason}"))
        };
        match &parameter.outcome {
            Err(reason) => return Err(failed(reason)),
            Ok(None) if !single => return Err(failed(&ExtractionReason::NullParameter)),
            Ok(Some(value)) if value.contains(',') => {
                return Err(NoItem(format!(
                    "parameter \"{name}\" = \"{value}\" contains a comma, so no client can name \
                     the item"
                )));
            }
            Ok(_) => list.push(format!("{name}={}", parameter.text())),
        }
    }
    Ok(format!("{prefix}-[{}]", list.join(",")))
}

/// Extracts one value, independently of others.
fn extract(
    from: &NamedSelector,
    paths: &PathTrees,
    complex: bool,
    record: &RecordView<'_>,
) -> Extracted {
    let mut payloads = PayloadReader::default();
    payloads.next_record(paths, |_| false);
    let wanted = WantedPaths::Fields(FieldSet::empty());
    payloads.want(paths, wanted, from.selector.document_node().into_iter());
    let mut text = String::new();
    let found = from
        .selector
        .append(record, complex, &mut payloads, &mut text);
    Extracted {
        name: Arc::clone(&from.name),
        expression: Arc::clone(&from.expression),
        outcome: found.map(|value| (value == SelectorValue::Text).then_some(text)),
    }
}
