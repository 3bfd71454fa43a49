//! Errors of drivers: the driver, the command and the cause.

use std::time::Duration;

use weir_lab::error::LabError;

/// Failure of a driver.
#[derive(Debug, thiserror::Error)]
#[error("driver {driver}, {during}: {reason}")]
pub struct DriverError {
    /// Name of the driver.
    pub driver: String,
    /// Name of the command, or `start`.
    pub during: &'static str,
    /// Cause.
    pub reason: DriverFailure,
}

/// Cause of a driver failure.
#[derive(Debug, thiserror::Error)]
pub enum DriverFailure {
    /// Not available: a missing toolchain, no network, or a compile error.
    #[error("not built: {0}")]
    NotBuilt(#[source] Box<LabError>),
    /// The program cannot be run.
    #[error("not started: {0}")]
    NotStarted(String),
    /// The process has ended or closed its output.
    #[error("crashed ({0}); last output: {1}")]
    Crashed(String, String),
    /// The driver did not respond in time and was killed.
    #[error("timed out after {0:?} and was killed; last output: {1}")]
    TimedOut(Duration, String),
    /// The driver wrote its response to standard error, which the text quotes, and was killed.
    #[error(
        "wrote its responses to standard error and was killed: {0}; write them to standard output"
    )]
    WrongStream(String),
    /// The driver sent an invalid line, which the text describes, and was killed.
    #[error("sent an invalid line and was killed: {0}")]
    InvalidLine(String),
    /// The driver returned contradictory results, which the text describes, and was killed.
    #[error("returned an impossible result and was killed: {0}")]
    ImpossibleResult(String),
    /// The driver responded with an error. It accepts further commands.
    #[error("command failed: {0}")]
    CommandFailed(String),
    /// The user interrupted the run, and the driver was killed.
    #[error("interrupted and killed")]
    Interrupted,
}

impl DriverError {
    /// Returns `true` unless the driver accepts further commands.
    pub fn is_fatal(&self) -> bool {
        !matches!(self.reason, DriverFailure::CommandFailed(_))
    }

    pub(super) fn not_built(driver: &str, error: LabError) -> Self {
        Self {
            driver: driver.to_owned(),
            during: "start",
            reason: match error {
                LabError::Interrupted { .. } => DriverFailure::Interrupted,
                error => DriverFailure::NotBuilt(Box::new(error)),
            },
        }
    }
}

impl DriverFailure {
    /// Describes a problem, followed by the start of the output that has it.
    pub(super) fn invalid_line(problem: &str, output: &[u8]) -> Self {
        Self::InvalidLine(format!("{problem}{}", truncated(output)))
    }
}

pub(super) fn truncated(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN_MAX)]);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into_owned(),
    }
}

/// Maximum number of characters quoted from a driver's output.
pub(super) const SHOWN_MAX: usize = 160;
