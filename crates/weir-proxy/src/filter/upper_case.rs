//! `upper-case`: values in upper case.

use serde::Deserialize;

use super::config::{all_topics, on_produce};
use super::text::Case;
use super::{Direction, Filter, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "upper-case";

/// Its keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpperCaseConfig {
    /// Names of topics, with `*` for anything.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Which way records travel; `produce` if left out.
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
