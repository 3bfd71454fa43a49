//! What a configuration yields beside the settings: notes, parameter status, files to look at.

use std::borrow::Cow;
use std::fmt;

use crate::error::Location;

/// How much attention a note needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// For information.
    Info,
    /// Probably not what the operator wants.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "note",
            Self::Warning => "warning",
        })
    }
}

/// Something the operator should know; it does not stop the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How much attention it needs.
    pub severity: Severity,
    /// Where it applies.
    pub at: Location,
    /// What it is, with the remedy.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.at, self.severity, self.text)
    }
}

/// What became of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterOutcome {
    /// Carried out as the connector does.
    Honoured,
    /// Read and without effect, for this reason.
    Ignored(Cow<'static, str>),
    /// The connection cannot start, for this reason.
    Refused(String),
}

impl fmt::Display for ParameterOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Honoured => f.write_str("honoured"),
            Self::Ignored(reason) => write!(f, "ignored: {reason}"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
        }
    }
}

/// One line of the list that tells the operator what was done with each parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterStatus {
    /// Name as written.
    pub name: String,
    /// Value; secrets are masked.
    pub value: String,
    /// Line of the file, where it is known.
    pub line: Option<u32>,
    /// What became of it.
    pub status: ParameterOutcome,
}

/// A file that a parameter names; relative paths start at the folder of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferencedFile {
    /// Parameter name.
    pub parameter: String,
    /// Path as written.
    pub path: String,
    /// Line of the file, where it is known.
    pub line: Option<u32>,
}
