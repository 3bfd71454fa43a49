//! The filter `set-header` sets a header of every record to a fixed value.

use serde::Deserialize;

use super::scope::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection, headers};

pub(super) const NAME: &str = "set-header";

/// Configuration of the filter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetHeaderConfig {
    /// Topic names; `*` matches any characters.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Directions, by default `produce`.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// Name of the header. Existing headers of this name are replaced.
    pub name: String,
    /// Value of the header.
    pub value: String,
}

impl SetHeaderConfig {
    pub(super) fn build(&self) -> Result<Box<dyn Filter>, FilterError> {
        let invalid = |key, value: &str, remedy| FilterError {
            filter: NAME,
            key,
            value: format!("{value:?}"),
            remedy,
        };
        if self.name.is_empty() {
            return Err(invalid("name", "", "give the header a name"));
        }
        // The header is added to every record, so a large one would multiply the size of small
        // records.
        if self.name.len() + self.value.len() > HEADER_BYTES_MAX {
            let start: String = self.value.chars().take(20).collect();
            let remedy = "name and value together may have up to 4096 bytes";
            return Err(invalid("value", &start, remedy));
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
