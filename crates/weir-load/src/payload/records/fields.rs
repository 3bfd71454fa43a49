//! Fields of a record that differ from record to record: due time, stamp and key.

use strum::{Display, EnumString};

use crate::error::{LoadError, Result};

/// Names of the fields for due time, stamp and key; `None`: the usual name, if the schema has such
/// a field of a suitable type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldNames {
    /// Due time.
    pub time: Option<String>,
    /// Unit of a due time that is a number; `None`: that of the schema, else nanoseconds.
    pub unit: Option<TimeUnit>,
    /// Stamp.
    pub stamp: Option<String>,
    /// Key of the record.
    pub key: Option<String>,
}

/// Unit of a Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString)]
#[strum(parse_err_fn = UnknownTimeUnit::new, parse_err_ty = UnknownTimeUnit)]
pub enum TimeUnit {
    /// Milliseconds.
    #[strum(serialize = "ms")]
    Milliseconds,
    /// Microseconds.
    #[strum(serialize = "us")]
    Microseconds,
    /// Nanoseconds.
    #[strum(serialize = "ns")]
    Nanoseconds,
}

/// Error for an unknown unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown unit \"{0}\": use ns, us or ms")]
pub struct UnknownTimeUnit(String);

impl UnknownTimeUnit {
    fn new(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl TimeUnit {
    pub(super) fn of_ns(self, unix_ns: u64) -> u64 {
        match self {
            Self::Milliseconds => unix_ns / 1_000_000,
            Self::Microseconds => unix_ns / 1_000,
            Self::Nanoseconds => unix_ns,
        }
    }
}

/// Type of a field, as far as it matters for times, stamps and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldType {
    Text,
    /// 64-bit number, with the unit that the schema gives for times.
    Number(NumberForm, Option<TimeUnit>),
    Other,
}

/// Encoding of a 64-bit number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberForm {
    Zigzag,
    Varint,
    Fixed,
}

/// Content of a field that is written for each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotContent {
    TimeText,
    TimeNumber(NumberForm, TimeUnit),
    Stamp,
    Key,
}

/// Fields of a schema that are written for each record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlotFields(Vec<(String, SlotContent)>);

impl SlotFields {
    /// Selects the fields of a schema; `type_of` returns the type of the field with a name.
    ///
    /// # Errors
    /// A named field does not exist or has no suitable type.
    pub(super) fn new(
        names: &FieldNames,
        type_of: &dyn Fn(&str) -> Option<FieldType>,
    ) -> Result<Self> {
        let mut fields = Vec::new();
        if let Some((name, found)) = select(&names.time, TIME_FIELD, type_of, true)? {
            let content = match (found, names.unit) {
                (FieldType::Number(form, unit), given) => {
                    check_unit(unit, given)?;
                    let unit = given.or(unit).unwrap_or(TimeUnit::Nanoseconds);
                    SlotContent::TimeNumber(form, unit)
                }
                (_, Some(unit)) => {
                    let reason = format!("field \"{name}\" is text, not a number; omit it");
                    return Err(LoadError::option("--time-unit", &unit, reason));
                }
                (_, None) => SlotContent::TimeText,
            };
            fields.push((name, content));
        } else if let Some(unit) = names.unit {
            let reason = "values have no field for the time; name one with --time-field";
            return Err(LoadError::option("--time-unit", &unit, reason));
        }
        for (option, own, usual, content) in [
            (
                "--stamp-field",
                &names.stamp,
                STAMP_FIELD,
                SlotContent::Stamp,
            ),
            ("--key-field", &names.key, KEY_FIELD, SlotContent::Key),
        ] {
            let Some((name, _)) = select_as(option, own, usual, type_of, false)? else {
                continue;
            };
            match fields.iter().any(|(taken, _)| *taken == name) {
                true if own.is_some() => {
                    let reason = "the field has another purpose already; name different fields";
                    return Err(LoadError::option(option, &name, reason));
                }
                true => {}
                false => fields.push((name, content)),
            }
        }
        Ok(Self(fields))
    }

    /// Returns the content of the field with a name.
    pub(super) fn content(&self, name: &str) -> Option<SlotContent> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, content)| *content)
    }

    /// Returns `true` if a field has the timestamp as text, which can be marked.
    pub(super) fn has_time_text(&self) -> bool {
        self.0
            .iter()
            .any(|(_, content)| *content == SlotContent::TimeText)
    }
}

fn select(
    own: &Option<String>,
    usual: &str,
    type_of: &dyn Fn(&str) -> Option<FieldType>,
    takes_number: bool,
) -> Result<Option<(String, FieldType)>> {
    select_as("--time-field", own, usual, type_of, takes_number)
}

fn select_as(
    option: &'static str,
    own: &Option<String>,
    usual: &str,
    type_of: &dyn Fn(&str) -> Option<FieldType>,
    takes_number: bool,
) -> Result<Option<(String, FieldType)>> {
    let name = own.as_deref().unwrap_or(usual);
    let is_suitable = |found: &FieldType| match found {
        FieldType::Text => true,
        FieldType::Number(..) => takes_number,
        FieldType::Other => false,
    };
    match (type_of(name), own) {
        (Some(found), _) if is_suitable(&found) => Ok(Some((name.to_owned(), found))),
        (_, None) => Ok(None),
        (None, Some(name)) => {
            let reason = "values have no such field at their top level; name one of the schema";
            Err(LoadError::option(option, name, reason))
        }
        (Some(_), Some(name)) => {
            let suitable = match takes_number {
                true => "a string or a 64-bit integer",
                false => "a string",
            };
            let reason = format!("the field is not {suitable}; name another one");
            Err(LoadError::option(option, name, reason))
        }
    }
}

fn check_unit(schema: Option<TimeUnit>, given: Option<TimeUnit>) -> Result<()> {
    match (schema, given) {
        (Some(schema), Some(given)) if schema != given => {
            let reason = format!("the field's logical type has the unit {schema}; omit it");
            Err(LoadError::option("--time-unit", &given, reason))
        }
        _ => Ok(()),
    }
}

pub(super) const TIME_FIELD: &str = "timestamp";
pub(super) const STAMP_FIELD: &str = "weir";
pub(super) const KEY_FIELD: &str = "sndValue";
