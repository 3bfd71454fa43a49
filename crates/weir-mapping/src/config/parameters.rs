//! Checked parameters of one connection under their current names, with the outcome of each.

use std::str::FromStr;

use weir_formats::white_space::{is_blank, trim};

use super::note::{ParameterOutcome, ParameterStatus};
use super::parameter_table::{
    Group, PATTERNS, PEM, ParameterSupport, REPLACED_BY_SNAPSHOTS, SNAPSHOTS, STORE_TYPE,
    UNRELEASED, current_name, is_newer, known, suggestion,
};
use super::source::{Findings, Parameter};
use super::types::ValueType;
use crate::error::{ConfigError, Problem};

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

impl ParameterEntry {
    pub(super) fn bad_value(&self, expected: &str) -> Problem {
        let value = masked(&self.name, &self.written.value);
        Problem::bad_value(&self.written.name, &value, expected)
    }
}

/// Checked parameters of one connection; each name occurs once.
#[derive(Default)]
pub(super) struct ConnectionParameters {
    entries: Vec<ParameterEntry>,
}

impl ConnectionParameters {
    /// Resolves names, checks types and rejects what is not supported.
    ///
    /// The errors already contain the parameters with undefined variables.
    pub(super) fn read(
        written: impl IntoIterator<Item = Parameter>,
        findings: &mut Findings<'_>,
    ) -> Self {
        let mut parameters = Self::default();
        let mut padded = Vec::new();
        for mut parameter in written {
            let name = trim(&parameter.name).to_owned();
            if name != parameter.name && !name.is_empty() {
                padded.push(parameter.clone());
                parameter.name = name;
            }
            let added = parameters.add(parameter.clone(), findings);
            findings.accept(&parameter, added);
        }
        if let Some((first, more)) = padded.split_first() {
            let noted = note_padded(first, more.len(), findings);
            findings.accept(first, noted);
        }
        for index in 0..parameters.entries.len() {
            let entry = &parameters.entries[index];
            if entry.is_resolved {
                let status = parameters.check(entry, findings);
                let status = findings.accept(&entry.written, status);
                parameters.entries[index].status = status;
            }
        }
        parameters
    }

    fn add(&mut self, written: Parameter, findings: &mut Findings<'_>) -> Result<(), Problem> {
        let line = written.line;
        let is_error_of = |error: &ConfigError| {
            error.at.line == line && error.parameter.as_ref() == Some(&written.name)
        };
        let is_resolved = !findings.errors.iter().any(is_error_of);
        let current = current_name(&written.name);
        let is_legacy = current.is_some();
        if let Some(current) = &current {
            let problem = Problem(format!(
                "parameter [{}] is not known to connector 1.5; write [{current}]",
                written.name
            ));
            findings.tolerate(line, problem, "read as that parameter")?;
        }
        let name = current.unwrap_or_else(|| written.name.clone());
        let entry = ParameterEntry {
            name,
            written,
            is_resolved,
            status: None,
        };
        let Some(other) = self.entries.iter_mut().find(|e| e.name == entry.name) else {
            self.entries.push(entry);
            return Ok(());
        };
        let problem = Problem(format!(
            "parameter [{}] is given twice; keep one of the two",
            entry.name
        ));
        // The current spelling wins over an earlier one. Of two equal ones the later wins, as in a
        // map.
        if is_legacy && other.written.name == entry.name {
            return findings.tolerate(line, problem, "used the current spelling");
        }
        *other = entry;
        findings.tolerate(line, problem, "used the later one")
    }

    fn check(
        &self,
        entry: &ParameterEntry,
        findings: &mut Findings<'_>,
    ) -> Result<ParameterOutcome, Problem> {
        let Some(known) = known(&entry.name) else {
            return check_pattern(entry, findings);
        };
        if findings.is_strict() && is_newer(&entry.name) {
            let name = &entry.written.name;
            let text = format!("parameter [{name}] is not known to connector 1.5; remove it");
            return Err(Problem(text));
        }
        if let ParameterSupport::In(group) = known.support {
            return self.check_member(entry, known.value_type, (group, None), findings);
        }
        if let ParameterSupport::IgnoredIn(group, reason) = known.support {
            return self.check_member(entry, known.value_type, (group, Some(reason)), findings);
        }
        let value = entry.written.value.as_str();
        if !known.value_type.accepts(value) {
            return Err(entry.bad_value(&known.value_type.expected()));
        }
        match known.support {
            ParameterSupport::With(other, values, reason)
                if self.get(other).is_none_or(|value| !values.contains(&value)) =>
            {
                Ok(ParameterOutcome::Ignored(reason.into()))
            }
            ParameterSupport::Ignored(reason) => Ok(ParameterOutcome::Ignored(reason.into())),
            _ => Ok(self.outcome(&entry.name)),
        }
    }

    /// Returns the outcome of a parameter that may be replaced by snapshots.
    fn outcome(&self, name: &str) -> ParameterOutcome {
        let replaced = REPLACED_BY_SNAPSHOTS.iter().find(|(one, ..)| *one == name);
        match replaced.filter(|_| self.is_on(SNAPSHOTS)) {
            Some((.., reason)) => ParameterOutcome::Ignored((*reason).into()),
            None => ParameterOutcome::Honoured,
        }
    }

    /// Checks a parameter of a group. A wrong value is an error if the group is on. Otherwise it is
    /// a warning because the connector starts with it. A blank value causes no warning: it is a
    /// placeholder.
    fn check_member(
        &self,
        entry: &ParameterEntry,
        value_type: ValueType,
        (group, ignored): (&Group, Option<&'static str>),
        findings: &mut Findings<'_>,
    ) -> Result<ParameterOutcome, Problem> {
        let is_on = self.is_on(group);
        let off = group.why_off(&|name| self.get(name));
        if !value_type.accepts(&entry.written.value) {
            let problem = entry.bad_value(&value_type.expected());
            if is_on {
                return Err(problem);
            }
            if !is_blank(&entry.written.value) {
                let text = format!("{problem}; parameter is {off}");
                findings.warn(entry.written.line, text);
            }
        }
        if is_on && value_type == STORE_TYPE && entry.written.value == PEM {
            let name = &entry.written.name;
            let problem = Problem(format!("connector 1.5 does not know [{name}] = \"{PEM}\""));
            findings.tolerate(entry.written.line, problem, "read as Kafka does")?;
        }
        let ignored = if is_on { ignored } else { Some(off) };
        Ok(ignored.map_or(ParameterOutcome::Honoured, |reason| {
            ParameterOutcome::Ignored(reason.into())
        }))
    }

    /// Returns `true` if the parameters of a group are read.
    pub(super) fn is_on(&self, group: &Group) -> bool {
        group.is_on(&|name| self.get(name))
    }

    /// Returns the parameters that name files to be read.
    pub(super) fn files(&self) -> impl Iterator<Item = &Parameter> {
        let is_file = |entry: &&ParameterEntry| {
            let is_file = known(&entry.name).is_some_and(|one| one.value_type == ValueType::File);
            is_file && entry.status == Some(ParameterOutcome::Honoured)
        };
        self.entries.iter().filter(is_file).map(|one| &one.written)
    }

    /// Returns a parameter whose variables are all defined.
    pub(super) fn resolved(&self, name: &str) -> Option<&Parameter> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| entry.name == name)?;
        (entry.is_resolved && !is_blank(&entry.written.value)).then_some(&entry.written)
    }

    /// Returns the checked value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map(|entry| entry.written.value.as_str())
    }

    /// Returns a parameter as written.
    pub(super) fn written(&self, name: &str) -> Option<&Parameter> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map(|entry| &entry.written)
    }

    /// Returns a parsed value, `None` if the parameter is missing or has an error.
    pub(super) fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// Returns the variable part and the entry of each parameter of a pattern, in file order.
    pub(super) fn matching(
        &self,
        prefix: &'static str,
        suffix: &'static str,
    ) -> impl Iterator<Item = (&str, &ParameterEntry)> {
        let entries = self.entries.iter().filter(|e| known(&e.name).is_none());
        entries.filter_map(move |e| variable_part(&e.name, prefix, suffix).map(|part| (part, e)))
    }

    /// Returns the outcome of each parameter, in file order.
    pub(super) fn into_statuses(self, errors: &[ConfigError]) -> Vec<ParameterStatus> {
        let statuses = self.entries.into_iter().map(|entry| {
            let is_of_entry =
                |error: &&ConfigError| error.parameter.as_ref() == Some(&entry.written.name);
            let outcome = match errors.iter().find(is_of_entry) {
                Some(error) => ParameterOutcome::Refused(error.text.clone()),
                // Every parameter without an error has been checked.
                None => entry.status.unwrap_or(ParameterOutcome::Honoured),
            };
            ParameterStatus {
                value: masked(&entry.name, &entry.written.value),
                name: entry.written.name,
                line: entry.written.line,
                outcome,
            }
        });
        statuses.collect()
    }
}

/// Adds one warning for all parameters with blanks around the name; a file may have thousands.
fn note_padded(first: &Parameter, more: usize, findings: &mut Findings<'_>) -> Result<(), Problem> {
    let more = match more {
        1.. if !findings.is_strict() => format!(" (and {more} more in this connection)"),
        _ => String::new(),
    };
    let problem = Problem(format!(
        "parameter [{}] begins or ends with a blank{more}; connector 1.5 does not know such a name",
        first.name
    ));
    findings.tolerate(first.line, problem, "blanks removed")
}

/// Checks parameters with a variable part: `field.X`, `map.X.to`, `item-template.X`.
fn check_pattern(
    entry: &ParameterEntry,
    findings: &mut Findings<'_>,
) -> Result<ParameterOutcome, Problem> {
    let pattern = PATTERNS.iter().find(|(prefix, suffix, _)| {
        let rest = entry.name.strip_prefix(prefix);
        rest.is_some_and(|r| r.is_empty() || r.starts_with('.')) && entry.name.ends_with(suffix)
    });
    let Some((prefix, suffix, expected)) = pattern else {
        return unknown(entry, findings);
    };
    if variable_part(&entry.name, prefix, suffix).is_none() {
        let name = &entry.written.name;
        return Err(Problem(format!(
            "specify a valid parameter [{expected}] instead of [{name}]"
        )));
    }
    if is_blank(&entry.written.value) {
        return Err(entry.bad_value(&ValueType::Text.expected()));
    }
    Ok(ParameterOutcome::Honoured)
}

fn unknown(
    entry: &ParameterEntry,
    findings: &mut Findings<'_>,
) -> Result<ParameterOutcome, Problem> {
    if UNRELEASED.contains(&entry.name.as_str()) {
        let reason = "belongs to no released connector version";
        let text = format!("parameter [{}] {reason}; parameter ignored", entry.name);
        findings.warn(entry.written.line, text);
        return Ok(ParameterOutcome::Ignored(reason.into()));
    }
    let nearest = match suggestion(&entry.name) {
        Some(nearest) => format!("the nearest known name is [{nearest}]"),
        None => "no known name is similar".to_owned(),
    };
    let name = &entry.written.name;
    let problem = Problem(format!("unknown parameter [{name}]; {nearest}"));
    findings.tolerate(entry.written.line, problem, "parameter ignored")?;
    Ok(ParameterOutcome::Ignored("unknown".into()))
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
pub(super) fn masked(name: &str, value: &str) -> String {
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
