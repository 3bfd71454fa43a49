//! Reasons for failed commands, and for ending a run early.

use weir_drivers::{DriverError, DriverFailure};

use crate::BenchError;

#[derive(Debug)]
pub(super) enum CommandFailure {
    /// The driver reported an error and accepts further commands.
    Rejected(String),
    GivenUp(String),
}

/// Reason for ending a run early.
#[derive(Debug)]
pub(super) enum RunEnd {
    Interrupted,
    /// The broker does not respond, or a process of the benchmarking tool failed.
    Tool(String),
    Files(BenchError),
}

/// The outer error ends the run.
pub(super) type CommandResult<T = ()> = RunResult<Result<T, CommandFailure>>;
pub(super) type RunResult<T = ()> = Result<T, RunEnd>;

impl CommandFailure {
    /// Returns the failure of a measured driver, which ends the run only after an interruption.
    pub(super) fn of(error: &DriverError) -> Result<Self, RunEnd> {
        match error.reason {
            DriverFailure::Interrupted => Err(RunEnd::Interrupted),
            DriverFailure::CommandFailed(_) => Ok(Self::Rejected(error.to_string())),
            _ => Ok(Self::GivenUp(error.to_string())),
        }
    }

    pub(super) fn into_reason(self) -> String {
        match self {
            Self::Rejected(reason) | Self::GivenUp(reason) => reason,
        }
    }
}

impl RunEnd {
    /// Returns the end because of a process that the run depends on.
    pub(super) fn instrument(error: impl ToString) -> Self {
        Self::Tool(error.to_string())
    }

    /// Returns the error of a run that ends before its first cell.
    pub(super) fn before_first_cell(self) -> BenchError {
        match self {
            Self::Interrupted => {
                BenchError::Libraries("interrupted before the first cell".to_owned())
            }
            Self::Tool(reason) => BenchError::Libraries(reason),
            Self::Files(error) => error,
        }
    }
}
