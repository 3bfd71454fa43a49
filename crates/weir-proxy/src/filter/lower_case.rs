//! The filter `lower-case` converts values to lower case.

use serde::Deserialize;

use super::scope::{all_topics, on_produce};
use super::text::Case;
use super::{Direction, Filter, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "lower-case";

/// Configuration of the filter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowerCaseConfig {
    /// Topic names; `*` matches any characters.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Directions, by default `produce`.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
}

impl LowerCaseConfig {
    pub(super) fn build(&self) -> Box<dyn Filter> {
        Box::new(LowerCase)
    }
}

#[derive(Debug)]
struct LowerCase;

impl Filter for LowerCase {
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        Case::Lower.apply(record);
        Ok(())
    }
}
