//! Step-by-step explanation of the mapping of one record, for display; not optimized.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::{ItemNames, ItemSource, Mapping, Template};
use crate::error::{ExtractionError, ExtractionReason};
use crate::field_set::FieldSet;
use crate::field_values::FieldValues;
use crate::item_name::CanonicalItem;
use crate::payload::{PathTrees, PayloadReader, WantedPaths};
use crate::record_view::RecordView;
use crate::selector::Selector;
use crate::selector_value::SelectorValue;

/// Explanation of the mapping of a record.
#[derive(Debug)]
pub struct Explanation {
    /// Results of the items and templates of the topic; empty if the topic is not mapped.
    pub sources: Vec<SourceOutcome>,
    /// Items that the record belongs to, or the error that prevents finding them.
    pub items: Result<Vec<String>, ExtractionError>,
    /// Each wanted field, extracted separately.
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

/// Reason why a template yields no item.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoItem {
    /// A parameter cannot be extracted, so the mapping of the record fails.
    #[error("parameter \"{name}\" by [{expression}]: {reason}")]
    Failed {
        /// Name of the parameter.
        name: Arc<str>,
        /// Expression of the parameter.
        expression: Arc<str>,
        /// Cause.
        reason: ExtractionReason,
    },
    /// A value contains a comma, so that no client can name the item.
    #[error("parameter \"{name}\" = \"{value}\" contains a comma, so no client can name the item")]
    Comma {
        /// Name of the parameter.
        name: Arc<str>,
        /// Value of the parameter.
        value: String,
    },
}

/// Reason why an item is not the one that a template or simple item yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// The prefixes differ.
    Prefix {
        /// Prefix of the configured item.
        actual: String,
        /// Prefix of the requested item.
        requested: String,
    },
    /// The sets of parameter names differ.
    Parameters {
        /// Parameter names of the configured item.
        actual: Vec<String>,
        /// Parameter names of the requested item.
        requested: Vec<String>,
    },
    /// The values of a parameter differ.
    Value {
        /// Name of the parameter.
        name: String,
        /// Value in the record.
        actual: String,
        /// Value in the requested item.
        requested: String,
    },
    /// The template yields no item for this record.
    NoItem(NoItem),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| match names {
            [] => "no parameters".to_owned(),
            names => format!("the parameters {}", names.join(", ")),
        };
        match self {
            Self::Prefix { actual, requested } => {
                write!(
                    f,
                    "its items begin with \"{actual}\", not with \"{requested}\""
                )
            }
            Self::Parameters { actual, requested } => {
                let (actual, requested) = (list(actual), list(requested));
                write!(f, "its items have {actual}, this one has {requested}")
            }
            Self::Value {
                name,
                actual,
                requested,
            } => {
                write!(
                    f,
                    "{name} is \"{actual}\" in the record, not \"{requested}\""
                )
            }
            Self::NoItem(reason) => reason.fmt(f),
        }
    }
}

impl SourceOutcome {
    /// Checks if this template or simple item routes the record to `item`.
    ///
    /// # Errors
    /// The first difference.
    pub fn matches(&self, item: &CanonicalItem) -> Result<(), Mismatch> {
        if self.prefix != item.prefix() {
            let (actual, requested) = (self.prefix.clone(), item.prefix().to_owned());
            return Err(Mismatch::Prefix { actual, requested });
        }
        let requested = item.parameters().map(|(name, _)| name);
        let actual = self.parameters.iter().map(|parameter| &*parameter.name);
        if !actual.clone().eq(requested.clone()) {
            let (actual, requested) = (actual.map(str::to_owned), requested.map(str::to_owned));
            let (actual, requested) = (actual.collect(), requested.collect());
            return Err(Mismatch::Parameters { actual, requested });
        }
        match &self.item {
            Err(reason) => return Err(Mismatch::NoItem(reason.clone())),
            Ok(name) if *name == item.as_str() => return Ok(()),
            Ok(_) => {}
        }
        let pairs = self.parameters.iter().zip(item.parameters());
        let texts = pairs.map(|(parameter, (name, requested))| (name, parameter.text(), requested));
        let mut differences = texts.filter(|(_, actual, requested)| actual != requested);
        let (name, actual, requested) = differences.next().unwrap_or_default();
        Err(Mismatch::Value {
            name: name.to_owned(),
            actual: actual.to_owned(),
            requested: requested.to_owned(),
        })
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
        let extracted = fields.map(|field| Extracted {
            name: Arc::clone(&field.name),
            expression: Arc::clone(&field.expression),
            outcome: extract(&field.selector, &self.field_paths, complex, record),
        });
        let topic = self
            .topics
            .iter()
            .find(|topic| *topic.name == *record.topic);
        let sources = topic.into_iter().flat_map(|topic| &topic.sources);
        Explanation {
            sources: sources
                .map(|source| self.explain_source(source, record))
                .collect(),
            items: items.map(|()| names.iter().map(str::to_owned).collect()),
            fields: extracted.collect(),
            fields_error: together.err(),
        }
    }

    fn explain_source(&self, source: &ItemSource, record: &RecordView<'_>) -> SourceOutcome {
        match source {
            ItemSource::Simple(name) => SourceOutcome {
                template: None,
                text: name.to_string(),
                parameters: Vec::new(),
                item: Ok(name.to_string()),
                prefix: name.to_string(),
            },
            ItemSource::Template(template) => {
                let parameters = template.parameters.iter().map(|parameter| Extracted {
                    name: Arc::clone(&parameter.name),
                    expression: Arc::clone(&parameter.expression),
                    outcome: extract(&parameter.selector, &self.item_paths, false, record),
                });
                let parameters: Vec<_> = parameters.collect();
                SourceOutcome {
                    template: Some(Arc::clone(&template.name)),
                    text: text_of(template),
                    item: item_of(&template.prefix, &parameters),
                    parameters,
                    prefix: template.prefix.to_string(),
                }
            }
        }
    }
}

fn text_of(template: &Template) -> String {
    let parameters = template.parameters.iter();
    let list: Vec<_> = parameters
        .map(|p| format!("{}={}", p.name, p.expression))
        .collect();
    format!("{}-#{{{}}}", template.prefix, list.join(","))
}

fn item_of(prefix: &str, parameters: &[Extracted]) -> Result<String, NoItem> {
    let single = parameters.len() == 1;
    let mut list = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let name = Arc::clone(&parameter.name);
        let failed = |reason| NoItem::Failed {
            name: Arc::clone(&parameter.name),
            expression: Arc::clone(&parameter.expression),
            reason,
        };
        match &parameter.outcome {
            Err(reason) => return Err(failed(reason.clone())),
            Ok(None) if !single => return Err(failed(ExtractionReason::NullParameter)),
            Ok(Some(value)) if value.contains(',') => {
                let value = value.clone();
                return Err(NoItem::Comma { name, value });
            }
            Ok(_) => list.push(format!("{name}={}", parameter.text())),
        }
    }
    Ok(format!("{prefix}-[{}]", list.join(",")))
}

/// Extracts the value of one selector, independently of others.
fn extract(
    selector: &Selector,
    paths: &PathTrees,
    complex: bool,
    record: &RecordView<'_>,
) -> Result<Option<String>, ExtractionReason> {
    let mut payloads = PayloadReader::default();
    payloads.next_record(paths, |_| false);
    let wanted = WantedPaths::Fields(FieldSet::empty());
    payloads.want(paths, wanted, selector.json_node().into_iter());
    let mut text = String::new();
    match selector.append(record, complex, &mut payloads, &mut text)? {
        SelectorValue::Text => Ok(Some(text)),
        SelectorValue::Null => Ok(None),
    }
}
