//! Sources of parameters: the file, how to read it, and parameters as written.

use super::note::{Note, Severity};
use crate::error::{ConfigError, Location, Problem};

/// How to read a configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct ParseOptions {
    /// Refuse what the connector 1.5.2 does not know (earlier spellings, templates without
    /// parameters, unknown parameters) instead of accepting or ignoring it with a warning.
    pub strict: bool,
}

/// Where parameters come from, for error texts and defaults.
#[derive(Debug, Clone, Copy)]
pub struct ConfigSource<'a> {
    /// Name of the file as the operator knows it.
    pub file: &'a str,
    /// How to read it.
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

/// A parameter as written, before it is known which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Value, variables already expanded.
    pub value: String,
    /// Line of the file, from 1.
    pub line: Option<u32>,
}
