//! The filter `remove-header` removes all headers of a name.

use serde::Deserialize;

use super::scope::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection, headers};

pub(super) const NAME: &str = "remove-header";

/// Configuration of the filter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveHeaderConfig {
    /// Topic names; `*` matches any characters.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Directions, by default `produce`.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// Name of the header. All headers of this name are removed.
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
