//! The filter `require` rejects records that do not meet its requirements, with their batch.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::scope::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "require";

/// Configuration of the filter; at least one requirement is needed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequireConfig {
    /// Topic names; `*` matches any characters.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Direction; only `produce`, because stored records cannot be rejected.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// Values must be valid JSON. Tombstones pass.
    #[serde(default)]
    pub json: bool,
    /// Maximum bytes of a value. Tombstones pass.
    pub value_bytes_max: Option<usize>,
    /// Names of required headers.
    #[serde(default)]
    pub headers: Vec<String>,
}

impl RequireConfig {
    pub(super) fn build(&self) -> Result<Box<dyn Filter>, FilterError> {
        let invalid = |key, value: &str, remedy| FilterError {
            filter: NAME,
            key,
            value: value.to_owned(),
            remedy,
        };
        if self.on.contains(&Direction::Fetch) {
            let remedy = "remove fetch: stored records cannot be rejected";
            return Err(invalid("on", "fetch", remedy));
        }
        if self.headers.iter().any(String::is_empty) {
            return Err(invalid("headers", "\"\"", "name the header"));
        }
        if !self.json && self.value_bytes_max.is_none() && self.headers.is_empty() {
            let remedy = "set json = true, value_bytes_max or headers";
            return Err(invalid("json", "false", remedy));
        }
        Ok(Box::new(Require {
            json: self.json,
            value_bytes_max: self.value_bytes_max,
            headers: self.headers.clone(),
        }))
    }
}

#[derive(Debug)]
struct Require {
    json: bool,
    value_bytes_max: Option<usize>,
    headers: Vec<String>,
}

impl Filter for Require {
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        for name in &self.headers {
            if !record.has_header(name)? {
                return Err(RecordRejection(
                    format!("header {name:?} is missing").into(),
                ));
            }
        }
        let Some(value) = record.value() else {
            return Ok(());
        };
        let bytes = value.len();
        if let Some(bytes_max) = self.value_bytes_max.filter(|max| bytes > *max) {
            let text = format!("value has {bytes} bytes, at most {bytes_max} are allowed");
            return Err(RecordRejection(text.into()));
        }
        match self.json {
            true => check_json(value),
            false => Ok(()),
        }
    }
}

fn check_json(value: &[u8]) -> Result<(), RecordRejection> {
    let Ok(text) = std::str::from_utf8(value) else {
        return Err(RecordRejection("value is not JSON: not UTF-8".into()));
    };
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(RecordRejection(
            format!("value is not JSON: {error}").into(),
        )),
    }
}
