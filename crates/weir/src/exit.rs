//! Exit codes of all commands; scripts may rely on them.

use std::fmt;
use std::process::ExitCode;

use weir_load::agent::AgentError;
use weir_load::error::{ErrorClass, LoadError};

/// Outcome of a command, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Completed without errors.
    Success,
    /// Failed threshold of a plan.
    Threshold,
    /// Invalid usage or configuration.
    Usage,
    /// Unreachable target, or a protocol violation by the target.
    Unreachable,
    /// Failure of the benchmarking tool; the measurement is not valid.
    Instrument,
    /// Ended by Ctrl-C or SIGTERM before the work was done.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Threshold => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::Instrument => 4,
            Exit::Interrupted => 130,
        })
    }
}

impl From<ErrorClass> for Exit {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Usage => Self::Usage,
            ErrorClass::Target => Self::Unreachable,
            ErrorClass::Instrument => Self::Instrument,
        }
    }
}

/// Returns the outcome of a server command.
///
/// `stuck` names the threads that did not end in time. They end with the process.
pub(crate) fn after_shutdown(stuck: &[String]) -> Exit {
    if stuck.is_empty() {
        return Exit::Success;
    }
    tracing::error!(threads = stuck.join(", "), "threads did not stop in time");
    Exit::Instrument
}

/// An error and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit code of the process.
    pub(crate) exit: Exit,
    /// The error with its causes.
    pub(crate) error: anyhow::Error,
}

impl Failure {
    /// Creates a failure that ends the process with `exit`.
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self { exit, error }
    }
}

impl fmt::Display for Failure {
    /// Writes the error and its causes on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

/// Converts errors to failures of a command.
pub(crate) trait OrExit<T> {
    /// Returns the error as a failure that ends the process with `exit`.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, error))
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::new(error.class().into(), error)
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        Self::new(error.class().into(), error)
    }
}
