//! `[[cluster.filter]]` as written, and the filters they become.

use serde::Deserialize;
use thiserror::Error;

use super::pattern::TopicPattern;
use super::{Filter, delay, lower_case, mask, remove_header, require, set_header, upper_case};

/// One filter as written: its `type` decides which other keys there are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FilterConfig {
    /// Values in lower case.
    LowerCase(lower_case::LowerCaseConfig),
    /// Values in upper case.
    UpperCase(upper_case::UpperCaseConfig),
    /// A header with a fixed value.
    SetHeader(set_header::SetHeaderConfig),
    /// Headers of some name taken out.
    RemoveHeader(remove_header::RemoveHeaderConfig),
    /// Members of JSON values made unreadable.
    Mask(mask::MaskConfig),
    /// Records that do not comply are refused.
    Require(require::RequireConfig),
    /// Frames are held for a while.
    Delay(delay::DelayConfig),
}

/// Which way records travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From a producer to the broker.
    Produce,
    /// From the broker to a consumer.
    Fetch,
}

impl Direction {
    /// Its name in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Fetch => "fetch",
        }
    }
}

/// A filter that can not be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("filter {filter}: {key} = {value}: {remedy}")]
pub struct FilterError {
    /// Its type.
    pub filter: &'static str,
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What would do.
    pub remedy: &'static str,
}

/// A filter with what it applies to.
#[derive(Debug)]
pub(super) struct Scoped {
    pub(super) name: &'static str,
    pub(super) filter: Box<dyn Filter>,
    topics: Vec<TopicPattern>,
    on: Vec<Direction>,
}

impl Scoped {
    pub(super) fn is_on(&self, direction: Direction) -> bool {
        self.on.contains(&direction)
    }

    pub(super) fn takes(&self, topic: &str, direction: Direction) -> bool {
        self.is_on(direction) && self.topics.iter().any(|pattern| pattern.matches(topic))
    }

    /// One line for people.
    pub(super) fn describe(&self) -> String {
        let on: Vec<_> = self.on.iter().map(|direction| direction.name()).collect();
        let topics: Vec<_> = self.topics.iter().map(TopicPattern::text).collect();
        let (on, topics) = (on.join(" and "), topics.join(", "));
        format!("{} on {on} of {topics}: {:?}", self.name, self.filter)
    }
}

impl FilterConfig {
    pub(super) fn build(&self) -> Result<Scoped, FilterError> {
        let (name, filter, topics, on): (_, Box<dyn Filter>, _, _) = match self {
            Self::LowerCase(it) => (lower_case::NAME, it.build(), &it.topics, &it.on),
            Self::UpperCase(it) => (upper_case::NAME, it.build(), &it.topics, &it.on),
            Self::SetHeader(it) => (set_header::NAME, it.build()?, &it.topics, &it.on),
            Self::RemoveHeader(it) => (remove_header::NAME, it.build()?, &it.topics, &it.on),
            Self::Mask(it) => (mask::NAME, it.build()?, &it.topics, &it.on),
            Self::Require(it) => (require::NAME, it.build()?, &it.topics, &it.on),
            Self::Delay(it) => (delay::NAME, it.build()?, &it.topics, &it.on),
        };
        let refused = |key, value: &str, remedy| FilterError {
            filter: name,
            key,
            value: value.to_owned(),
            remedy,
        };
        if topics.is_empty() {
            let remedy = "name a topic, or leave the key out for all but internal ones";
            return Err(refused("topics", "[]", remedy));
        }
        if let Some(blank) = topics.iter().find(|topic| topic.trim().is_empty()) {
            return Err(refused("topics", &format!("{blank:?}"), "name a topic"));
        }
        if on.is_empty() {
            return Err(refused("on", "[]", "name produce, fetch or both"));
        }
        Ok(Scoped {
            name,
            filter,
            topics: topics.iter().map(|text| TopicPattern::new(text)).collect(),
            on: on.clone(),
        })
    }
}

/// `topics` left out.
pub(super) fn all_topics() -> Vec<String> {
    vec!["*".to_owned()]
}

/// `on` left out.
pub(super) fn on_produce() -> Vec<Direction> {
    vec![Direction::Produce]
}
