//! The filters `set-header` and `remove-header`.

use serde::Deserialize;

use crate::{BuildResult, Filter, InvalidKey, RecordEdit, RecordRejection, headers};

/// Sets a header of every record to a fixed value. Existing headers of this name are replaced.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SetHeader {
    name: String,
    value: String,
}

/// Removes all headers of a name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveHeader {
    name: String,
}

impl SetHeader {
    pub(crate) fn build(self) -> BuildResult {
        if self.name.is_empty() {
            let remedy = "give the header a name";
            return Err(InvalidKey("name", "\"\"".to_owned(), remedy));
        }
        // The header is added to every record, so a large one would multiply the size of small
        // records.
        if self.name.len() + self.value.len() > HEADER_BYTES_MAX {
            let start: String = self.value.chars().take(20).collect();
            let remedy = "name and value together may have up to 4096 bytes";
            return Err(InvalidKey("value", format!("{start:?}"), remedy));
        }
        Ok(Box::new(self))
    }
}

impl RemoveHeader {
    pub(crate) fn build(self) -> BuildResult {
        match self.name.is_empty() {
            true => Err(InvalidKey("name", "\"\"".to_owned(), "name the header")),
            false => Ok(Box::new(self)),
        }
    }
}

impl Filter for SetHeader {
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        let value = self.value.as_bytes();
        record.rewrite_headers(|old, out| headers::with(old, &self.name, value, out))?;
        Ok(())
    }
}

impl Filter for RemoveHeader {
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        record.rewrite_headers(|old, out| headers::without(old, &self.name, out))?;
        Ok(())
    }
}

const HEADER_BYTES_MAX: usize = 4096;
