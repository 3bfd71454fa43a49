//! Results of reading a configuration besides the connections: notes, parameter outcomes, files.

use std::borrow::Cow;
use std::fmt;

use crate::error::Location;

/// Severity of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information.
    Info,
    /// Probable mistake.
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

/// Finding for the operator that does not prevent the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Severity.
    pub severity: Severity,
    /// Location in the configuration.
    pub at: Location,
    /// Finding with its remedy.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.at, self.severity, self.text)
    }
}

/// Outcome of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterOutcome {
    /// Implemented as in the connector.
    Honoured,
    /// Read but without effect, with the reason.
    Ignored(Cow<'static, str>),
    /// Rejected, so that the connection cannot start, with the reason.
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

/// Outcome of one parameter, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterStatus {
    /// Name as written.
    pub name: String,
    /// Value; secrets are masked.
    pub value: String,
    /// Line of the file, if known.
    pub line: Option<u32>,
    /// Outcome.
    pub outcome: ParameterOutcome,
}

/// File that a parameter names; relative paths start at the directory of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferencedFile {
    /// Parameter name.
    pub parameter: String,
    /// Path as written.
    pub path: String,
    /// Line of the file, if known.
    pub line: Option<u32>,
}
