//! The filter `upper-case` converts values to upper case.

use serde::Deserialize;

use super::scope::{all_topics, on_produce};
use super::text::Case;
use super::{Direction, Filter, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "upper-case";

/// Configuration of the filter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpperCaseConfig {
    /// Topic names; `*` matches any characters.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Directions, by default `produce`.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
}

impl UpperCaseConfig {
    pub(super) fn build(&self) -> Box<dyn Filter> {
        Box::new(UpperCase)
    }
}

#[derive(Debug)]
struct UpperCase;

impl Filter for UpperCase {
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        Case::Upper.apply(record);
        Ok(())
    }
}
