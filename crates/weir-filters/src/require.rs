//! The filter `require` rejects records that do not meet its requirements, with their batch.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::{BuildResult, Filter, InvalidKey, RecordEdit, RecordRejection};

/// Requirements on records; at least one is needed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Require {
    /// Values must be valid JSON. Tombstones pass.
    #[serde(default)]
    json: bool,
    /// Maximum bytes of a value. Tombstones pass.
    value_bytes_max: Option<usize>,
    #[serde(default)]
    headers: Vec<String>,
}

impl Require {
    pub(crate) fn build(self) -> BuildResult {
        if self.headers.iter().any(String::is_empty) {
            return Err(InvalidKey("headers", "\"\"".to_owned(), "name the header"));
        }
        if !self.json && self.value_bytes_max.is_none() && self.headers.is_empty() {
            let remedy = "set json = true, value_bytes_max or headers";
            return Err(InvalidKey("json", "false".to_owned(), remedy));
        }
        Ok(Box::new(self))
    }
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
