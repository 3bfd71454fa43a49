//! Errors of benchmark runs and their exit class.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weir_kafka::AdminError;
use weir_lab::LabError;

use crate::plan::PlanError;
use weir_load::error::ErrorClass;

/// Error that ends a run before it has a result.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Invalid plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Broker could not be started.
    #[error("cannot start a broker for the run: {0}")]
    Lab(#[from] LabError),
    /// Admin request that failed.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// File that could not be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Operating system error.
        source: io::Error,
    },
    /// File that could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Operating system error.
        source: io::Error,
    },
    /// Files without any recognized line.
    #[error(
        "no output line of kafka-producer-perf-test or kafka-consumer-perf-test in {files}; \
         pass files with the output of these tools"
    )]
    NothingToImport {
        /// Paths of the files.
        files: String,
    },
    /// Child process that could not be started.
    #[error("cannot start {role}: {source}")]
    Spawn {
        /// Process role.
        role: &'static str,
        /// Operating system error.
        source: io::Error,
    },
    /// Child process that exited during the run.
    #[error("{role} exited unexpectedly: {reason}")]
    Exited {
        /// Process role.
        role: &'static str,
        /// Last line of its log.
        reason: String,
    },
    /// Client library comparison that cannot start.
    #[error("{0}")]
    Libraries(String),
    /// Attempt to resume a run with different options.
    #[error(
        "--resume {}: options differ from those of the run: {differences}; \
         use the same options or start a new run",
        dir.display()
    )]
    Resume {
        /// Run directory.
        dir: PathBuf,
        /// Recorded and current values.
        differences: String,
    },
    /// Child process without an output pipe.
    #[error("child process has no output pipe")]
    NoPipe,
}

impl BenchError {
    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the error class, which determines the exit code.
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Plan(_)
            | Self::File { .. }
            | Self::Read { .. }
            | Self::NothingToImport { .. }
            | Self::Libraries(_)
            | Self::Resume { .. } => ErrorClass::Usage,
            Self::Lab(error) => match error.fault() {
                weir_lab::ErrorClass::Usage => ErrorClass::Usage,
                weir_lab::ErrorClass::Unreachable | weir_lab::ErrorClass::Interrupted => {
                    ErrorClass::Target
                }
            },
            Self::Admin(_) => ErrorClass::Target,
            Self::Spawn { .. } | Self::NoPipe | Self::Exited { .. } => ErrorClass::Instrument,
        }
    }
}
