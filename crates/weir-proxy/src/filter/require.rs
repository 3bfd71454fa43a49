//! `require`: records that do not comply are refused, and with them their batch.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::config::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "require";

/// Its keys: at least one demand.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequireConfig {
    /// Names of topics, with `*` for anything.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// `produce`, which is also what it is if left out: what is stored can not be refused any more.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// Values are valid JSON. Tombstones pass.
    #[serde(default)]
    pub json: bool,
    /// Values have at most so many bytes. Tombstones pass.
    pub value_bytes_max: Option<usize>,
    /// Records have headers of these names.
    #[serde(default)]
    pub headers: Vec<String>,
}

impl RequireConfig {
    pub(super) fn build(&self) -> Result<Box<dyn Filter>, FilterError> {
        let refused = |key, value: &str, remedy| FilterError {
            filter: NAME,
            key,
            value: value.to_owned(),
            remedy,
        };
        if self.on.contains(&Direction::Fetch) {
            let remedy = "leave fetch out: what is stored can not be refused";
            return Err(refused("on", "fetch", remedy));
        }
        if self.headers.iter().any(String::is_empty) {
            return Err(refused("headers", "\"\"", "name the header"));
        }
        if !self.json && self.value_bytes_max.is_none() && self.headers.is_empty() {
            let remedy = "demand something: json = true, value_bytes_max or headers";
            return Err(refused("json", "false", remedy));
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
            let text = format!("value of {bytes} bytes, at most {bytes_max} are allowed");
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
