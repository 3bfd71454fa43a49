//! The tables `[[cluster.filter]]` and the filters built from them.

use serde::Deserialize;
use toml::{Table, Value};

use crate::header_filters::{RemoveHeader, SetHeader};
use crate::mask::MaskConfig;
use crate::pattern::TopicPattern;
use crate::require::Require;
use crate::text::Case;
use crate::{Direction, Filter, FilterError, InvalidKey, delay::DelayConfig};

/// One filter as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Table")]
pub struct FilterConfig {
    name: String,
    /// Topic names; `*` matches any characters. Default: all topics.
    topics: Vec<String>,
    /// Directions, by default `produce`.
    on: Vec<Direction>,
    kind: FilterKind,
}

/// The keys of a filter that depend on its `type`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
enum FilterKind {
    LowerCase(NoKeys),
    UpperCase(NoKeys),
    SetHeader(SetHeader),
    RemoveHeader(RemoveHeader),
    Mask(MaskConfig),
    Require(Require),
    Delay(DelayConfig),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct NoKeys {}

impl TryFrom<Table> for FilterConfig {
    type Error = toml::de::Error;

    fn try_from(mut table: Table) -> Result<Self, toml::de::Error> {
        let topics = table.remove("topics");
        let on = table.remove("on");
        let name = table.get("type").and_then(Value::as_str);
        Ok(Self {
            name: name.unwrap_or_default().to_owned(),
            topics: topics.map_or_else(|| Ok(vec!["*".to_owned()]), Value::try_into)?,
            on: on.map_or_else(|| Ok(vec![Direction::Produce]), Value::try_into)?,
            kind: table.try_into()?,
        })
    }
}

/// A filter with its topics and directions.
#[derive(Debug)]
pub(crate) struct ScopedFilter {
    name: String,
    pub(crate) filter: Box<dyn Filter>,
    topics: Vec<TopicPattern>,
    on: Vec<Direction>,
}

impl ScopedFilter {
    pub(crate) fn is_on(&self, direction: Direction) -> bool {
        self.on.contains(&direction)
    }

    pub(crate) fn takes(&self, topic: &str, direction: Direction) -> bool {
        self.is_on(direction) && self.topics.iter().any(|pattern| pattern.matches(topic))
    }

    pub(crate) fn describe(&self) -> String {
        let on: Vec<_> = self.on.iter().map(|direction| direction.name()).collect();
        let topics: Vec<_> = self.topics.iter().map(|pattern| &*pattern.0).collect();
        let (on, topics) = (on.join(" and "), topics.join(", "));
        format!("{} on {on} of {topics}: {:?}", self.name, self.filter)
    }
}

impl FilterConfig {
    pub(crate) fn build(&self) -> Result<ScopedFilter, FilterError> {
        let invalid = |key, value: &str, remedy| FilterError {
            filter: self.name.clone(),
            key,
            value: value.to_owned(),
            remedy,
        };
        if self.topics.is_empty() {
            let remedy = "name a topic, or remove the key for all topics except internal ones";
            return Err(invalid("topics", "[]", remedy));
        }
        if let Some(blank) = self.topics.iter().find(|topic| topic.trim().is_empty()) {
            return Err(invalid("topics", &format!("{blank:?}"), "name a topic"));
        }
        if self.on.is_empty() {
            return Err(invalid("on", "[]", "name produce, fetch or both"));
        }
        if matches!(self.kind, FilterKind::Require(_)) && self.on.contains(&Direction::Fetch) {
            let remedy = "remove fetch: stored records cannot be rejected";
            return Err(invalid("on", "fetch", remedy));
        }
        let filter = match self.kind.clone() {
            FilterKind::LowerCase(NoKeys {}) => Ok(Box::new(Case::LowerCase) as Box<dyn Filter>),
            FilterKind::UpperCase(NoKeys {}) => Ok(Box::new(Case::UpperCase) as _),
            FilterKind::SetHeader(it) => it.build(),
            FilterKind::RemoveHeader(it) => it.build(),
            FilterKind::Mask(it) => it.build(),
            FilterKind::Require(it) => it.build(),
            FilterKind::Delay(it) => it.build(),
        };
        Ok(ScopedFilter {
            name: self.name.clone(),
            filter: filter
                .map_err(|InvalidKey(key, value, remedy)| invalid(key, &value, remedy))?,
            topics: self.topics.iter().cloned().map(TopicPattern).collect(),
            on: self.on.clone(),
        })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for FilterConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Filter".into()
    }

    /// Adds the keys of all filters to those of each type, as `try_from` takes them.
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let topics = generator.subschema_for::<Vec<String>>();
        let on = generator.subschema_for::<Vec<Direction>>();
        let mut schema = FilterKind::json_schema(generator);
        let types = schema
            .get_mut("oneOf")
            .and_then(|types| types.as_array_mut());
        for kind in types.expect("one schema per type") {
            kind["properties"]["topics"] = topics.clone().to_value();
            kind["properties"]["on"] = on.clone().to_value();
        }
        schema
    }
}
