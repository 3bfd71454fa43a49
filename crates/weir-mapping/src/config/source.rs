//! Source of a configuration: file name, parse options and parameters as written.

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

impl ConfigSource<'_> {
    pub(super) fn error(
        &self,
        line: Option<u32>,
        connection: Option<&str>,
        problem: Problem,
    ) -> ConfigError {
        let connection = connection.map(str::to_owned);
        ConfigError {
            at: Location {
                file: self.file.to_owned(),
                line,
                connection,
            },
            problem: Box::new(problem),
        }
    }

    pub(super) fn note(
        &self,
        severity: Severity,
        line: Option<u32>,
        connection: Option<&str>,
        text: String,
    ) -> Note {
        let connection = connection.map(str::to_owned);
        Note {
            severity,
            at: Location {
                file: self.file.to_owned(),
                line,
                connection,
            },
            text,
        }
    }
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
