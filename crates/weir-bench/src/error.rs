//! Errors of benchmark runs and their exit class.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weir_drivers::conformance::ConformanceError;
use weir_drivers::{DriverError, DriverFailure};
use weir_engine::machines::{AgentsError, MachinesError};
use weir_kafka::AdminError;
use weir_lab::LabError;

use crate::plan::PlanError;
use weir_load::error::{ErrorClass, LoadError};

/// Error that ends a run before it has a result.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Invalid plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Client properties of the run are invalid.
    #[error(transparent)]
    Client(#[from] LoadError),
    /// Subject of `proxy-overhead` that clients with encryption cannot use.
    #[error(
        "subject {0}: clients of this run use encryption, but the proxies started for it do not; \
         use --subjects direct"
    )]
    Encrypted(&'static str),
    /// Client properties could not be written for the child processes.
    #[error("cannot write the client properties for child processes: {0}")]
    ClientFile(#[source] io::Error),
    /// Broker could not be started.
    #[error("cannot start a broker for the run: {0}")]
    Lab(#[from] LabError),
    /// Machines that cannot be used.
    #[error(transparent)]
    Machines(#[from] MachinesError),
    /// Admin request that failed.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// File that could not be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    File(PathBuf, #[source] io::Error),
    /// File that could not be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Files, separated by commas, without any recognized line.
    #[error(
        "no output line of kafka-producer-perf-test or kafka-consumer-perf-test in {0}; \
         pass files with the output of these tools"
    )]
    NothingToImport(String),
    /// Child process, by its role, that could not be started.
    #[error("cannot start {0}: {1}")]
    Spawn(&'static str, #[source] io::Error),
    /// Role of a child process that exited during the run, and the last line of its log.
    #[error("{0} exited unexpectedly: {1}")]
    Exited(&'static str, String),
    /// Driver that cannot be built.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Checks of a driver that cannot be completed.
    #[error(transparent)]
    Conformance(#[from] ConformanceError),
    /// Client library comparison that cannot start.
    #[error("{0}")]
    Libraries(String),
    /// Run directory whose run has other options than given, and the differences.
    #[error(
        "--resume {dir}: options differ from those of the run: {1}; \
         use the same options or start a new run",
        dir = .0.display()
    )]
    Resume(PathBuf, String),
    /// Child process without an output pipe.
    #[error("child process has no output pipe")]
    NoPipe,
}

impl BenchError {
    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        Self::File(path.to_owned(), source)
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read(path.to_owned(), source)
    }

    /// Returns the error class, which determines the exit code.
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Plan(_)
            | Self::File(..)
            | Self::Read(..)
            | Self::NothingToImport(_)
            | Self::Libraries(_)
            | Self::Encrypted(_)
            | Self::Resume(..) => ErrorClass::Usage,
            Self::Lab(error) => match error.fault() {
                weir_lab::ErrorClass::Usage => ErrorClass::Usage,
                weir_lab::ErrorClass::Unreachable | weir_lab::ErrorClass::Interrupted => {
                    ErrorClass::Target
                }
            },
            Self::Driver(error) => match &error.reason {
                DriverFailure::NotBuilt(_) => ErrorClass::Usage,
                _ => ErrorClass::Target,
            },
            Self::Conformance(error) => match error {
                ConformanceError::NoCheck(..) => ErrorClass::Usage,
                ConformanceError::File(..) => ErrorClass::Tool,
                _ => ErrorClass::Target,
            },
            Self::Machines(error) => match error {
                MachinesError::Machine(_) => ErrorClass::Target,
                MachinesError::Agents(AgentsError::Token | AgentsError::Listen(..)) => {
                    ErrorClass::Usage
                }
                MachinesError::Agents(_) => ErrorClass::Tool,
                _ => ErrorClass::Usage,
            },
            Self::Admin(_) => ErrorClass::Target,
            Self::Client(error) => error.class(),
            Self::ClientFile(_) | Self::Spawn(..) | Self::NoPipe | Self::Exited(..) => {
                ErrorClass::Tool
            }
        }
    }
}
