//! Results of reading a configuration besides the connections: notes and outcomes of parameters.

use std::borrow::Cow;
use std::fmt;

use strum::Display;

use crate::error::Location;

/// Severity of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum Severity {
    /// Information.
    #[strum(to_string = "note")]
    Info,
    /// Probable mistake.
    #[strum(to_string = "warning")]
    Warning,
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
#[derive(Debug, Clone, PartialEq, Eq, Display)]
pub enum ParameterOutcome {
    /// Implemented as in the connector.
    #[strum(to_string = "honoured")]
    Honoured,
    /// Read but without effect, with the reason.
    #[strum(to_string = "ignored: {0}")]
    Ignored(Cow<'static, str>),
    /// Rejected, so that the connection cannot start, with the reason.
    #[strum(to_string = "refused: {0}")]
    Refused(String),
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
