//! What a mapping makes of one record, step by step, for people: nothing here is fast.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::{ItemNames, ItemSource, Mapping, Template};
use crate::error::{ExtractionError, ExtractionReason};
use crate::field_set::FieldSet;
use crate::field_values::FieldValues;
use crate::item_name::CanonicalItem;
use crate::payload::{PayloadReader, Plans, WantedPaths};
use crate::record_view::RecordView;
use crate::selector::Selector;
use crate::selector_value::SelectorValue;

/// What a mapping makes of a record.
#[derive(Debug)]
pub struct Explanation {
    /// One for each item or template the topic is mapped to; none if it is not mapped.
    pub sources: Vec<SourceOutcome>,
    /// The items the record belongs to, or why that cannot be told.
    pub items: Result<Vec<String>, ExtractionError>,
    /// The wanted fields, each on its own.
    pub fields: Vec<Extracted>,
    /// Why the wanted fields together cannot be extracted.
    pub fields_error: Option<ExtractionError>,
}

/// One expression and what the record holds there.
#[derive(Debug)]
pub struct Extracted {
    /// Name of the field or template parameter.
    pub name: Arc<str>,
    /// The expression.
    pub expression: Arc<str>,
    /// The text, `None` for null.
    pub outcome: Result<Option<String>, ExtractionReason>,
}

/// A simple item or a template and what becomes of it.
#[derive(Debug)]
pub struct SourceOutcome {
    /// Name of the template, `None` for a simple item.
    pub template: Option<Arc<str>>,
    /// The template as in the configuration, or the simple item.
    pub text: String,
    /// The parameters of the template, sorted by name.
    pub parameters: Vec<Extracted>,
    /// The item's name.
    pub item: Result<String, NoItem>,
    prefix: String,
}

/// Why a template yields no item.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoItem {
    /// A parameter cannot be extracted; the record as a whole is an error.
    #[error("parameter \"{name}\" by [{expression}]: {reason}")]
    Failed {
        /// Name of the parameter.
        name: Arc<str>,
        /// Its expression.
        expression: Arc<str>,
        /// Why.
        reason: ExtractionReason,
    },
    /// A value with a comma: no client can name the item.
    #[error("parameter \"{name}\" = \"{value}\" holds a comma, so no client can name the item")]
    Comma {
        /// Name of the parameter.
        name: Arc<str>,
        /// Its value.
        value: String,
    },
}

/// Why an item is not the one that a template or simple item yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// The parts before the parameters differ.
    Prefix {
        /// What the configuration yields.
        here: String,
        /// What the item asks for.
        asked: String,
    },
    /// The sets of parameter names differ.
    Parameters {
        /// What the configuration yields.
        here: Vec<String>,
        /// What the item asks for.
        asked: Vec<String>,
    },
    /// The values of a parameter differ.
    Value {
        /// Name of the parameter.
        name: String,
        /// What the record holds.
        here: String,
        /// What the item asks for.
        asked: String,
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
            Self::Prefix { here, asked } => {
                write!(f, "its items begin with \"{here}\", not with \"{asked}\"")
            }
            Self::Parameters { here, asked } => {
                let (here, asked) = (list(here), list(asked));
                write!(f, "its items have {here}, this one has {asked}")
            }
            Self::Value { name, here, asked } => {
                write!(f, "{name} is \"{here}\" in the record, not \"{asked}\"")
            }
            Self::NoItem(reason) => reason.fmt(f),
        }
    }
}

impl SourceOutcome {
    /// Whether the record goes to `item` because of this template or simple item.
    pub fn matches(&self, item: &CanonicalItem) -> Result<(), Mismatch> {
        if self.prefix != item.prefix() {
            let (here, asked) = (self.prefix.clone(), item.prefix().to_owned());
            return Err(Mismatch::Prefix { here, asked });
        }
        let asked = item.parameters().map(|(name, _)| name);
        let here = self.parameters.iter().map(|parameter| &*parameter.name);
        if !here.clone().eq(asked.clone()) {
            let (here, asked) = (here.map(str::to_owned), asked.map(str::to_owned));
            let (here, asked) = (here.collect(), asked.collect());
            return Err(Mismatch::Parameters { here, asked });
        }
        match &self.item {
            Err(reason) => return Err(Mismatch::NoItem(reason.clone())),
            Ok(name) if *name == item.as_str() => return Ok(()),
            Ok(_) => {}
        }
        let pairs = self.parameters.iter().zip(item.parameters());
        let texts = pairs.map(|(parameter, (name, asked))| (name, parameter.text(), asked));
        let mut differing = texts.filter(|(_, here, asked)| here != asked);
        let (name, here, asked) = differing.next().unwrap_or_default();
        Err(Mismatch::Value {
            name: name.to_owned(),
            here: here.to_owned(),
            asked: asked.to_owned(),
        })
    }
}

impl Extracted {
    /// The text as it stands in an item name.
    fn text(&self) -> &str {
        match &self.outcome {
            Ok(Some(text)) => text,
            Ok(None) | Err(_) => "null",
        }
    }
}

impl Mapping {
    /// Says what becomes of a record, and why; `wanted` is what somebody subscribed to.
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
            outcome: extract(&field.selector, &self.field_plans, complex, record),
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
                    outcome: extract(&parameter.selector, &self.item_plans, false, record),
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

/// What one selector finds, as if it were the only one.
fn extract(
    selector: &Selector,
    plans: &Plans,
    complex: bool,
    record: &RecordView<'_>,
) -> Result<Option<String>, ExtractionReason> {
    let mut payloads = PayloadReader::default();
    payloads.turn(plans, |_| false);
    let aim = WantedPaths::Fields(FieldSet::empty());
    payloads.want(plans, aim, selector.place().into_iter());
    let mut text = String::new();
    match selector.append(record, complex, &mut payloads, &mut text)? {
        SelectorValue::Text => Ok(Some(text)),
        SelectorValue::Null => Ok(None),
    }
}
