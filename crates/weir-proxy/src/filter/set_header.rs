//! `set-header`: every record has one header of a name, with a fixed value.

use serde::Deserialize;

use super::config::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection, headers};

pub(super) const NAME: &str = "set-header";

/// Its keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetHeaderConfig {
    /// Names of topics, with `*` for anything.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Which way records travel; `produce` if left out.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// The header's name. Headers that have it already are replaced.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl SetHeaderConfig {
    pub(super) fn build(&self) -> Result<Box<dyn Filter>, FilterError> {
        let refused = |key, value: &str, remedy| FilterError {
            filter: NAME,
            key,
            value: format!("{value:?}"),
            remedy,
        };
        if self.name.is_empty() {
            return Err(refused("name", "", "give the header a name"));
        }
        // It is added to every record: a large one would multiply small batches.
        if self.name.len() + self.value.len() > HEADER_BYTES_MAX {
            let start: String = self.value.chars().take(20).collect();
            let remedy = "name and value together may have up to 4096 bytes";
            return Err(refused("value", &start, remedy));
        }
        Ok(Box::new(SetHeader {
            name: self.name.clone(),
            value: self.value.clone(),
        }))
    }
}

#[derive(Debug)]
struct SetHeader {
    name: String,
    value: String,
}

impl Filter for SetHeader {
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        let value = self.value.as_bytes();
        record.rewrite_headers(|old, out| headers::with(old, &self.name, value, out))?;
        Ok(())
    }
}

const HEADER_BYTES_MAX: usize = 4096;
