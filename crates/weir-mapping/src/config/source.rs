//! Source of a configuration: file name, parse options, parameters as written, and findings.

use super::note::{Note, Severity};
use crate::error::{ConfigError, Location, Problem};

/// Options of parsing a configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct ParseOptions {
    /// Reject everything that connector 1.5.2 does not know: earlier spellings, templates without
    /// parameters, unknown parameters. Otherwise it is accepted or ignored with a warning.
    pub strict: bool,
}

/// Source of parameters, for error texts.
#[derive(Debug, Clone, Copy)]
pub struct ConfigSource<'a> {
    /// Name of the file as the operator knows it.
    pub file: &'a str,
    /// Parse options.
    pub options: ParseOptions,
}

/// A parameter as written, not yet identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Value after variable expansion.
    pub value: String,
    /// Line of the file, from 1.
    pub line: Option<u32>,
}

/// Findings in a file, or in one connection of it.
pub(super) struct Findings<'a> {
    pub(super) source: &'a ConfigSource<'a>,
    pub(super) connection: Option<&'a str>,
    pub(super) notes: &'a mut Vec<Note>,
    pub(super) errors: &'a mut Vec<ConfigError>,
}

impl Findings<'_> {
    /// Returns the findings to be used inside a connection.
    pub(super) fn inside<'b>(&'b mut self, connection: &'b str) -> Findings<'b> {
        Findings {
            source: self.source,
            connection: Some(connection),
            notes: self.notes,
            errors: self.errors,
        }
    }

    pub(super) fn is_strict(&self) -> bool {
        self.source.options.strict
    }

    fn at(&self, line: Option<u32>) -> Location {
        Location {
            file: self.source.file.to_owned(),
            line,
            connection: self.connection.map(str::to_owned),
        }
    }

    pub(super) fn reject(&mut self, line: Option<u32>, problem: Problem) {
        self.errors.push(ConfigError {
            at: self.at(line),
            text: problem.0,
            parameter: None,
        });
    }

    /// Returns the result for a parameter; a problem becomes an error.
    pub(super) fn accept<T>(&mut self, of: &Parameter, result: Result<T, Problem>) -> Option<T> {
        let problem = match result {
            Ok(value) => return Some(value),
            Err(problem) => problem,
        };
        self.errors.push(ConfigError {
            at: self.at(of.line),
            text: problem.0,
            parameter: Some(of.name.clone()),
        });
        None
    }

    pub(super) fn note(&mut self, severity: Severity, line: Option<u32>, text: String) {
        let at = self.at(line);
        self.notes.push(Note { severity, at, text });
    }

    pub(super) fn warn(&mut self, line: Option<u32>, text: String) {
        self.note(Severity::Warning, line, text);
    }

    /// Adds a warning that ends with the consequence, or returns the problem in strict mode.
    pub(super) fn tolerate(
        &mut self,
        line: Option<u32>,
        problem: Problem,
        consequence: &str,
    ) -> Result<(), Problem> {
        if self.is_strict() {
            return Err(problem);
        }
        self.warn(line, format!("{problem}; {consequence}"));
        Ok(())
    }
}
