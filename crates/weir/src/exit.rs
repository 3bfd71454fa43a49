//! Exit codes of every command: what a script may rely on.

use std::fmt;
use std::process::ExitCode;

use weir_load::error::ErrorClass;

/// How a command ended, beyond its printed result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All went well.
    Fine,
    /// A threshold of a plan failed.
    Threshold,
    /// Usage or configuration is wrong.
    Usage,
    /// A target could not be reached or broke the protocol.
    Unreachable,
    /// The instrument failed: the measurement is not valid.
    Instrument,
    /// Ended by Ctrl-C or SIGTERM before its work was done.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Threshold => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::Instrument => 4,
            Exit::Interrupted => 130,
        })
    }
}

impl From<ErrorClass> for Exit {
    fn from(fault: ErrorClass) -> Self {
        match fault {
            ErrorClass::Usage => Self::Usage,
            ErrorClass::Target => Self::Unreachable,
            ErrorClass::Instrument => Self::Instrument,
        }
    }
}

/// Tells how a server ended, given the threads that did not end in time. They end with the process:
/// nothing waits for them any more.
pub(crate) fn after_shutdown(stuck: &[String]) -> Exit {
    if stuck.is_empty() {
        return Exit::Fine;
    }
    tracing::error!(
        "ended without waiting for threads that are stuck: {}",
        stuck.join(", ")
    );
    Exit::Instrument
}

/// An error with the exit code it stands for.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The code the process ends with.
    pub(crate) exit: Exit,
    /// What went wrong, with its causes.
    pub(crate) error: anyhow::Error,
}

impl Failure {
    /// Wraps `error` with the exit code `exit`.
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            error: error.into(),
        }
    }
}

impl fmt::Display for Failure {
    /// One line with the whole cause chain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}
