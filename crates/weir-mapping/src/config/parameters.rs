//! Checked parameters of one connection under their current names, with the outcome of each.

use super::note::{Note, ParameterOutcome, ParameterStatus, ReferencedFile, Severity};
use super::parameter_table::{
    GROUP_UNSUPPORTED, Group, KNOWN, PATTERNS, ParameterSupport, UNRELEASED, current_name,
    is_known, suggestion,
};
use super::source::{ConfigSource, Parameter};
use super::types::{self, ValueType};
use crate::error::{ConfigError, Problem};
use crate::text::{is_blank, trim};

/// A parameter under its current name.
#[derive(Debug)]
pub(super) struct ParameterEntry {
    /// Current name.
    pub(super) name: String,
    /// Name, value and line as in the file.
    pub(super) written: Parameter,
    /// False if the value contains undefined variables. They are reported as errors, so the value
    /// is not checked.
    pub(super) is_resolved: bool,
    status: Option<ParameterOutcome>,
}

/// An error of a parameter.
#[derive(Debug)]
pub(super) struct ParameterError {
    /// Name as written, without blanks around it.
    pub(super) name: String,
    pub(super) error: ConfigError,
}

/// Checked parameters of one connection; each name occurs once.
pub(super) struct ConnectionParameters<'a> {
    source: &'a ConfigSource<'a>,
    connection: &'a str,
    entries: Vec<ParameterEntry>,
}

impl<'a> ConnectionParameters<'a> {
    /// Resolves names, checks types and rejects what is not supported.
    ///
    /// `refusals` already contains the parameters with undefined variables.
    pub(super) fn read(
        source: &'a ConfigSource<'a>,
        connection: &'a str,
        written: impl IntoIterator<Item = Parameter>,
        notes: &mut Vec<Note>,
        errors: &mut Vec<ParameterError>,
    ) -> Self {
        let mut parameters = Self {
            source,
            connection,
            entries: Vec::new(),
        };
        let mut padded = Vec::new();
        for mut parameter in written {
            let name = trim(&parameter.name).to_owned();
            if name != parameter.name && !name.is_empty() {
                padded.push(parameter.clone());
                parameter.name = name;
            }
            let name = parameter.name.clone();
            let is_resolved = !errors
                .iter()
                .any(|r| r.name == name && r.error.at.line == parameter.line);
            if let Err(error) = parameters.add(parameter, is_resolved, notes) {
                errors.push(ParameterError { name, error });
            }
        }
        if let Err(error) = parameters.note_padded(&padded, notes) {
            let name = padded.swap_remove(0).name;
            errors.push(ParameterError { name, error });
        }
        for index in 0..parameters.entries.len() {
            let entry = &parameters.entries[index];
            if !entry.is_resolved {
                continue;
            }
            match parameters.check(entry, notes) {
                Ok(status) => parameters.entries[index].status = Some(status),
                Err(error) => {
                    let name = entry.written.name.clone();
                    errors.push(ParameterError { name, error });
                }
            }
        }
        parameters
    }

    /// Adds one warning for all parameters with blanks around the name; a file may have thousands.
    fn note_padded(&self, padded: &[Parameter], notes: &mut Vec<Note>) -> Result<(), ConfigError> {
        let Some((first, more)) = padded.split_first() else {
            return Ok(());
        };
        let problem = Problem::PaddedName {
            parameter: first.name.clone(),
            more: if self.is_strict() { 0 } else { more.len() },
        };
        self.warn_or_reject(first.line, problem, "blanks removed", notes)
    }

    fn add(
        &mut self,
        written: Parameter,
        is_resolved: bool,
        notes: &mut Vec<Note>,
    ) -> Result<(), ConfigError> {
        let current = current_name(&written.name);
        let is_legacy = current.is_some();
        if let Some(current) = &current {
            let (parameter, current) = (written.name.clone(), current.clone());
            let problem = Problem::LegacyName { parameter, current };
            self.warn_or_reject(written.line, problem, "read as that parameter", notes)?;
        }
        let name = current.unwrap_or_else(|| written.name.clone());
        let entry = ParameterEntry {
            name,
            written,
            is_resolved,
            status: None,
        };
        let Some(index) = self
            .entries
            .iter()
            .position(|other| other.name == entry.name)
        else {
            self.entries.push(entry);
            return Ok(());
        };
        let problem = Problem::RepeatedParameter {
            parameter: entry.name.clone(),
        };
        let line = entry.written.line;
        // The current spelling wins over an earlier one. Of two equal ones the later wins, as in a
        // map.
        if is_legacy && self.entries[index].written.name == entry.name {
            return self.warn_or_reject(line, problem, "used the current spelling", notes);
        }
        self.entries[index] = entry;
        self.warn_or_reject(line, problem, "used the later one", notes)
    }

    fn check(
        &self,
        entry: &ParameterEntry,
        notes: &mut Vec<Note>,
    ) -> Result<ParameterOutcome, ConfigError> {
        if let Some((_, value_type, support)) = KNOWN.iter().find(|(name, ..)| *name == entry.name)
        {
            if let ParameterSupport::In(group) = support {
                return self.check_member(entry, *value_type, group, notes);
            }
            if !value_type.accepts(&entry.written.value) {
                return Err(self.bad_value(entry, value_type.expected()));
            }
            return match support {
                ParameterSupport::Only(value, remedy) if *value != entry.written.value => {
                    Err(self.unsupported(entry, remedy))
                }
                ParameterSupport::Except(values, remedy)
                    if values.contains(&entry.written.value.as_str()) =>
                {
                    Err(self.unsupported(entry, remedy))
                }
                ParameterSupport::With(other, value, reason) if self.get(other) != Some(value) => {
                    Ok(ParameterOutcome::Ignored((*reason).into()))
                }
                ParameterSupport::Ignored(reason) => {
                    Ok(ParameterOutcome::Ignored((*reason).into()))
                }
                _ => Ok(ParameterOutcome::Honoured),
            };
        }
        self.check_pattern(entry, notes)
    }

    /// Checks a parameter of an unsupported group. A wrong value is an error if the group is
    /// enabled. Otherwise it is a warning because the connector starts with it. A blank value
    /// causes no warning: it is a placeholder.
    fn check_member(
        &self,
        entry: &ParameterEntry,
        value_type: ValueType,
        group: &Group,
        notes: &mut Vec<Note>,
    ) -> Result<ParameterOutcome, ConfigError> {
        let is_on = |switch: &&str| self.get(switch) == Some("true");
        let is_on = group.switches.iter().any(is_on);
        if !value_type.accepts(&entry.written.value) {
            let error = self.bad_value(entry, value_type.expected());
            if is_on {
                return Err(error);
            }
            if !is_blank(&entry.written.value) {
                let text = format!("{}; parameter is {}", error.problem, group.off);
                notes.push(self.note(Severity::Warning, entry, text));
            }
        }
        let reason = if is_on { GROUP_UNSUPPORTED } else { group.off };
        Ok(ParameterOutcome::Ignored(reason.into()))
    }

    /// Checks parameters with a variable part: `field.X`, `map.X.to`, `item-template.X`.
    fn check_pattern(
        &self,
        entry: &ParameterEntry,
        notes: &mut Vec<Note>,
    ) -> Result<ParameterOutcome, ConfigError> {
        let pattern = PATTERNS.iter().find(|(prefix, suffix, _)| {
            let rest = entry.name.strip_prefix(prefix);
            rest.is_some_and(|r| r.is_empty() || r.starts_with('.')) && entry.name.ends_with(suffix)
        });
        let Some((prefix, suffix, expected)) = pattern else {
            return self.unknown(entry, notes);
        };
        if variable_part(&entry.name, prefix, suffix).is_none() {
            let parameter = entry.written.name.clone();
            return Err(self.error(
                entry,
                Problem::MalformedName {
                    parameter,
                    expected,
                },
            ));
        }
        if is_blank(&entry.written.value) {
            return Err(self.bad_value(entry, ValueType::Text.expected()));
        }
        Ok(ParameterOutcome::Honoured)
    }

    fn unknown(
        &self,
        entry: &ParameterEntry,
        notes: &mut Vec<Note>,
    ) -> Result<ParameterOutcome, ConfigError> {
        if UNRELEASED.contains(&entry.name.as_str()) {
            let reason = "belongs to no released connector version";
            let text = format!("parameter [{}] {reason}; parameter ignored", entry.name);
            notes.push(self.note(Severity::Warning, entry, text));
            return Ok(ParameterOutcome::Ignored(reason.into()));
        }
        let parameter = entry.written.name.clone();
        let problem = Problem::UnknownParameter {
            parameter,
            nearest: suggestion(&entry.name),
        };
        self.warn_or_reject(entry.written.line, problem, "parameter ignored", notes)?;
        Ok(ParameterOutcome::Ignored("unknown".into()))
    }

    /// Returns the checked value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map(|entry| entry.written.value.as_str())
    }

    /// Returns a checked boolean or its default.
    pub(super) fn boolean(&self, name: &str, default: bool) -> bool {
        self.get(name).and_then(types::boolean).unwrap_or(default)
    }

    /// Returns a checked number or its default.
    pub(super) fn int(&self, name: &str, default: i32) -> i32 {
        self.get(name).and_then(types::int).unwrap_or(default)
    }

    /// Returns the variable part and the entry of each parameter of a pattern, in file order.
    pub(super) fn matching(
        &self,
        prefix: &'static str,
        suffix: &'static str,
    ) -> impl Iterator<Item = (&str, &ParameterEntry)> {
        self.entries
            .iter()
            .filter(|entry| !is_known(&entry.name))
            .filter_map(move |entry| {
                variable_part(&entry.name, prefix, suffix).map(|part| (part, entry))
            })
    }

    /// Returns the files that parameters name.
    pub(super) fn files(&self) -> Vec<ReferencedFile> {
        let is_file = |name: &str| {
            KNOWN.iter().any(|(n, value_type, support)| {
                *n == name
                    && *value_type == ValueType::File
                    && !matches!(support, ParameterSupport::In(_))
            })
        };
        let entries = self.entries.iter().filter(|entry| is_file(&entry.name));
        entries
            .map(|entry| ReferencedFile {
                parameter: entry.written.name.clone(),
                path: entry.written.value.clone(),
                line: entry.written.line,
            })
            .collect()
    }

    /// Returns the outcome of each parameter, in file order.
    pub(super) fn into_statuses(self, errors: &[ParameterError]) -> Vec<ParameterStatus> {
        let statuses = self.entries.into_iter().map(|entry| {
            let rejected = errors.iter().find(|r| r.name == entry.written.name);
            let status = match rejected {
                Some(rejection) => ParameterOutcome::Refused(rejection.error.problem.to_string()),
                // Every parameter without an error has been checked.
                None => entry.status.unwrap_or(ParameterOutcome::Honoured),
            };
            ParameterStatus {
                value: masked(&entry.name, &entry.written.value),
                name: entry.written.name,
                line: entry.written.line,
                outcome: status,
            }
        });
        statuses.collect()
    }

    pub(super) fn error(&self, entry: &ParameterEntry, problem: Problem) -> ConfigError {
        self.source
            .error(entry.written.line, Some(self.connection), problem)
    }

    pub(super) fn note(&self, severity: Severity, entry: &ParameterEntry, text: String) -> Note {
        self.source
            .note(severity, entry.written.line, Some(self.connection), text)
    }

    pub(super) fn bad_value(&self, entry: &ParameterEntry, expected: String) -> ConfigError {
        let parameter = entry.written.name.clone();
        let value = masked(&entry.name, &entry.written.value);
        self.error(
            entry,
            Problem::BadValue {
                parameter,
                value,
                expected,
            },
        )
    }

    pub(super) fn is_strict(&self) -> bool {
        self.source.options.strict
    }

    fn unsupported(&self, entry: &ParameterEntry, remedy: &'static str) -> ConfigError {
        let parameter = entry.written.name.clone();
        let value = masked(&entry.name, &entry.written.value);
        self.error(
            entry,
            Problem::Unsupported {
                parameter,
                value,
                remedy,
            },
        )
    }

    fn warn_or_reject(
        &self,
        line: Option<u32>,
        problem: Problem,
        consequence: &str,
        notes: &mut Vec<Note>,
    ) -> Result<(), ConfigError> {
        if self.is_strict() {
            return Err(self.source.error(line, Some(self.connection), problem));
        }
        let text = format!("{problem}; {consequence}");
        notes.push(
            self.source
                .note(Severity::Warning, line, Some(self.connection), text),
        );
        Ok(())
    }
}

/// Returns the part between `prefix.` and `suffix`, `None` if it is blank or missing.
fn variable_part<'a>(name: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    let part = name
        .strip_prefix(prefix)?
        .strip_prefix('.')?
        .strip_suffix(suffix)?;
    (!is_blank(part)).then_some(part)
}

/// Returns a value for display, with secrets masked.
fn masked(name: &str, value: &str) -> String {
    if name.ends_with("password") || name.ends_with("secret") {
        "********".to_owned()
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parameter_table::{FIELD, MAP, MAP_SUFFIX};

    #[test]
    fn variable_part_ends_at_last_suffix() {
        assert_eq!(variable_part("map.a.b.to", MAP, MAP_SUFFIX), Some("a.b"));
        assert_eq!(variable_part("map.a.to.to", MAP, MAP_SUFFIX), Some("a.to"));
        assert_eq!(variable_part("map.to", MAP, MAP_SUFFIX), None);
        assert_eq!(variable_part("map..to", MAP, MAP_SUFFIX), None);
        assert_eq!(variable_part("field.a b.c", FIELD, ""), Some("a b.c"));
        assert_eq!(variable_part("field.", FIELD, ""), None);
        assert_eq!(variable_part("field", FIELD, ""), None);
        assert_eq!(variable_part("fieldx.a", FIELD, ""), None);
    }

    #[test]
    fn secrets_are_masked() {
        assert_eq!(masked("authentication.password", "hunter2"), "********");
        assert_eq!(
            masked("schema.registry.azure.client.secret", "x"),
            "********"
        );
        assert_eq!(masked("group.id", "g"), "g");
    }
}
