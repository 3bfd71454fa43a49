//! `lower-case`: values in lower case.

use serde::Deserialize;

use super::config::{all_topics, on_produce};
use super::text::Case;
use super::{Direction, Filter, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "lower-case";

/// Its keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowerCaseConfig {
    /// Names of topics, with `*` for anything.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Which way records travel; `produce` if left out.
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
