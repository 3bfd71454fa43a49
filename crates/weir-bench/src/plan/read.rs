//! Parsing helpers for all kinds of plans: TOML, durations, byte counts and rule violations.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::error::PlanError;
use weir_load::units::{parse_bytes, parse_duration};

/// Violated rule: key, value and remedy.
pub(crate) type RuleViolation = (&'static str, String, &'static str);

/// Parses `text` into `T`. `file` is the name in errors.
pub(crate) fn from_toml<T: DeserializeOwned>(text: &str, file: &str) -> Result<T, PlanError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.as_bytes().get(..start).unwrap_or_default();
        PlanError::Syntax {
            file: file.to_owned(),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            message: error.message().replace('\n', "; "),
        }
    })
}

/// Returns an error if there is a violation.
pub(crate) fn reject_violation(
    violation: Option<RuleViolation>,
    file: &str,
) -> Result<(), PlanError> {
    match violation {
        None => Ok(()),
        Some((key, value, remedy)) => Err(PlanError::Value {
            file: file.to_owned(),
            key,
            value,
            remedy,
        }),
    }
}

pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

pub(crate) fn some_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_bytes(&text).map_err(serde::de::Error::custom)
}

pub(crate) fn some_bytes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    bytes(deserializer).map(Some)
}
