//! `remove-header`: no record has a header of that name.

use serde::Deserialize;

use super::config::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection, headers};

pub(super) const NAME: &str = "remove-header";

/// Its keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveHeaderConfig {
    /// Names of topics, with `*` for anything.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Which way records travel; `produce` if left out.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// The header's name; all of that name go.
    pub name: String,
}

impl RemoveHeaderConfig {
    pub(super) fn build(&self) -> Result<Box<dyn Filter>, FilterError> {
        if self.name.is_empty() {
            return Err(FilterError {
                filter: NAME,
                key: "name",
                value: "\"\"".to_owned(),
                remedy: "name the header",
            });
        }
        Ok(Box::new(RemoveHeader {
            name: self.name.clone(),
        }))
    }
}

#[derive(Debug)]
struct RemoveHeader {
    name: String,
}

impl Filter for RemoveHeader {
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        record.rewrite_headers(|old, out| headers::without(old, &self.name, out))?;
        Ok(())
    }
}
