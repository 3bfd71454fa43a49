//! Plan files: TOML text to a plan whose rules hold, and values that replace those of a plan.

use std::fmt::Display;
use std::ops::{Deref, RangeInclusive};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use weir_load::units::{parse_bytes, parse_count, parse_duration};

/// Error in a plan. Every message names the file and the key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Not TOML, an unknown key, a missing key or a value of the wrong type: file, line from 1 and
    /// description.
    #[error("{0}:{1}: {2}")]
    Syntax(String, usize, String),
    /// Invalid value: file or `command line`, key, value, and how to fix it.
    #[error("{0}: {1} = {2}: {3}")]
    Value(String, &'static str, String, &'static str),
}

/// Reads a file next to the plan; `None` if there is no such file.
pub type Siblings<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A plan as written. Its rules may be violated; [`Valid`] is the form that experiments take.
pub trait PlanText: Clone + DeserializeOwned {
    /// Values that the override tables of the file and the command line replace.
    type Overrides: Clone;

    /// Returns the override tables of the file, `[quick]` first.
    fn tables(&self) -> Vec<&Self::Overrides>;

    /// Reads the files that the plan names.
    fn resolve(&mut self, _rules: &Rules<'_>, _siblings: Siblings<'_>) -> Result<(), PlanError> {
        Ok(())
    }

    /// Replaces the values that are set in `new`.
    fn replace(&mut self, new: Self::Overrides);

    /// Sorts lists and requires all rules.
    ///
    /// # Errors
    /// [`PlanError::Value`] for the first violated rule.
    fn require(self, rules: &Rules<'_>) -> Result<Self, PlanError>;
}

/// A plan whose rules hold, also with each of its override tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Valid<P>(P);

impl<P> Deref for Valid<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.0
    }
}

impl<P: PlanText> Valid<P> {
    /// Parses a plan. `file` is its name in errors.
    pub fn parse(text: &str, file: &str, siblings: Siblings<'_>) -> Result<Self, PlanError> {
        let (mut plan, rules): (P, _) = (from_toml(text, file)?, Rules { file });
        plan.resolve(&rules, siblings)?;
        let valid = Self(plan.require(&rules)?);
        for table in valid.tables() {
            valid.with(table.clone(), file)?;
        }
        Ok(valid)
    }

    /// Returns the plan with some values replaced. `file` is their origin in errors.
    pub fn with(&self, overrides: P::Overrides, file: &str) -> Result<Self, PlanError> {
        let mut plan = self.0.clone();
        plan.replace(overrides);
        plan.require(&Rules { file }).map(Self)
    }

    /// Returns the plan with the values of its first override table, `[quick]`.
    ///
    /// # Errors
    /// Never for a parsed plan, because [`Self::parse`] has tried it.
    pub fn quick(&self, file: &str) -> Result<Self, PlanError> {
        let quick = self.tables().first().map(|quick| (*quick).clone());
        quick.map_or_else(|| Ok(self.clone()), |quick| self.with(quick, file))
    }

    /// Changes values that no rule is about.
    pub(crate) fn map(self, change: impl FnOnce(&mut P)) -> Self {
        let mut plan = self.0;
        change(&mut plan);
        Self(plan)
    }
}

/// Requires rules of a plan; errors name its file.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    file: &'a str,
}

impl Rules<'_> {
    pub(crate) fn violated(
        &self,
        key: &'static str,
        value: impl Display,
        remedy: &'static str,
    ) -> PlanError {
        PlanError::Value(self.file.to_owned(), key, value.to_string(), remedy)
    }

    pub(crate) fn hold(
        &self,
        holds: bool,
        key: &'static str,
        value: impl Display,
        remedy: &'static str,
    ) -> Result<(), PlanError> {
        match holds {
            true => Ok(()),
            false => Err(self.violated(key, value, remedy)),
        }
    }

    /// Requires a finite number above 0.
    pub(crate) fn above_0(&self, key: &'static str, value: f64) -> Result<(), PlanError> {
        let holds = value.is_finite() && value > 0.0;
        self.hold(holds, key, value, "use a number above 0")
    }

    pub(crate) fn at_least_one(&self, key: &'static str, value: u32) -> Result<(), PlanError> {
        self.hold(value > 0, key, value, "use at least 1")
    }

    /// Requires all `values` to be in `range`.
    pub(crate) fn within(
        &self,
        key: &'static str,
        values: &[u64],
        range: RangeInclusive<u64>,
        remedy: &'static str,
    ) -> Result<(), PlanError> {
        let wrong = values.iter().find(|value| !range.contains(value));
        wrong.map_or(Ok(()), |wrong| Err(self.violated(key, wrong, remedy)))
    }

    pub(crate) fn not_empty<T>(
        &self,
        key: &'static str,
        values: &[T],
        remedy: &'static str,
    ) -> Result<(), PlanError> {
        self.hold(!values.is_empty(), key, "[]", remedy)
    }
}

/// Replaces the named fields of a plan by those of the overrides that are set.
macro_rules! replace_fields {
    ($plan:expr, $new:expr; $($field:ident),+ $(,)?) => {
        $(if let Some(value) = $new.$field {
            // Also for optional fields, which an override can only set.
            $plan.$field = value.into();
        })+
    };
}

pub(crate) use replace_fields;

/// Parses `text` into `T`. `file` is the name in errors.
pub(crate) fn from_toml<T: DeserializeOwned>(text: &str, file: &str) -> Result<T, PlanError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.as_bytes().get(..start).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        PlanError::Syntax(file.to_owned(), line, error.message().replace('\n', "; "))
    })
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

/// Number that is neither a count nor a decimal number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct InvalidRate(String);

/// Parses a count or a decimal number.
pub fn parse_rate(text: &str) -> Result<f64, InvalidRate> {
    let whole = |_| parse_count(text).map(|count| count as f64);
    let rate = text.parse().or_else(whole);
    rate.map_err(|error| InvalidRate(error.to_string()))
}

/// Parses rates like [`parse_rate`], rounded to whole numbers.
pub(crate) fn parse_whole_rate(text: &str) -> Result<u64, InvalidRate> {
    parse_rate(text).map(|rate| rate.round() as u64)
}

/// Text that is not `KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("must be KEY=VALUE")]
pub(crate) struct NotKeyValue;

pub(crate) fn key_value(text: &str) -> Result<(String, String), NotKeyValue> {
    let (key, value) = text.split_once('=').ok_or(NotKeyValue)?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Deserializes a value from its command-line name.
pub(crate) fn named<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: Display>,
{
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(serde::de::Error::custom)
}
