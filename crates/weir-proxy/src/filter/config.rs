//! The tables `[[cluster.filter]]` and the filters built from them.

use serde::Deserialize;

use super::pattern::TopicPattern;
use super::{
    Direction, Filter, FilterError, delay, lower_case, mask, remove_header, require, set_header,
    upper_case,
};

/// One filter as written. Its `type` determines the other keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FilterConfig {
    /// Conversion of values to lower case.
    LowerCase(lower_case::LowerCaseConfig),
    /// Conversion of values to upper case.
    UpperCase(upper_case::UpperCaseConfig),
    /// A header with a fixed value.
    SetHeader(set_header::SetHeaderConfig),
    /// Removal of headers by name.
    RemoveHeader(remove_header::RemoveHeaderConfig),
    /// Replacement of members of JSON values.
    Mask(mask::MaskConfig),
    /// Requirements on records.
    Require(require::RequireConfig),
    /// A delay of frames.
    Delay(delay::DelayConfig),
}

/// A filter with its topics and directions.
#[derive(Debug)]
pub(super) struct ScopedFilter {
    pub(super) name: &'static str,
    pub(super) filter: Box<dyn Filter>,
    topics: Vec<TopicPattern>,
    on: Vec<Direction>,
}

impl ScopedFilter {
    pub(super) fn is_on(&self, direction: Direction) -> bool {
        self.on.contains(&direction)
    }

    pub(super) fn takes(&self, topic: &str, direction: Direction) -> bool {
        self.is_on(direction) && self.topics.iter().any(|pattern| pattern.matches(topic))
    }

    /// Returns a human-readable description.
    pub(super) fn describe(&self) -> String {
        let on: Vec<_> = self.on.iter().map(|direction| direction.name()).collect();
        let topics: Vec<_> = self.topics.iter().map(TopicPattern::text).collect();
        let (on, topics) = (on.join(" and "), topics.join(", "));
        format!("{} on {on} of {topics}: {:?}", self.name, self.filter)
    }
}

impl FilterConfig {
    pub(super) fn build(&self) -> Result<ScopedFilter, FilterError> {
        let (name, filter, topics, on): (_, Box<dyn Filter>, _, _) = match self {
            Self::LowerCase(it) => (lower_case::NAME, it.build(), &it.topics, &it.on),
            Self::UpperCase(it) => (upper_case::NAME, it.build(), &it.topics, &it.on),
            Self::SetHeader(it) => (set_header::NAME, it.build()?, &it.topics, &it.on),
            Self::RemoveHeader(it) => (remove_header::NAME, it.build()?, &it.topics, &it.on),
            Self::Mask(it) => (mask::NAME, it.build()?, &it.topics, &it.on),
            Self::Require(it) => (require::NAME, it.build()?, &it.topics, &it.on),
            Self::Delay(it) => (delay::NAME, it.build()?, &it.topics, &it.on),
        };
        let invalid = |key, value: &str, remedy| FilterError {
            filter: name,
            key,
            value: value.to_owned(),
            remedy,
        };
        if topics.is_empty() {
            let remedy = "name a topic, or remove the key for all topics except internal ones";
            return Err(invalid("topics", "[]", remedy));
        }
        if let Some(blank) = topics.iter().find(|topic| topic.trim().is_empty()) {
            return Err(invalid("topics", &format!("{blank:?}"), "name a topic"));
        }
        if on.is_empty() {
            return Err(invalid("on", "[]", "name produce, fetch or both"));
        }
        Ok(ScopedFilter {
            name,
            filter,
            topics: topics.iter().map(|text| TopicPattern::new(text)).collect(),
            on: on.clone(),
        })
    }
}
