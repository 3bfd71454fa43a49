//! Why a run could not go on, by whose fault.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weir_kafka::AdminError;
use weir_lab::LabError;

use crate::plan::PlanError;
use weir_load::error::ErrorClass;

/// Why a run ended before it had a result to write.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The plan makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No broker could be started.
    #[error("no broker for the run: {0}")]
    Lab(#[from] LabError),
    /// The broker does not answer or refuses.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// A file of the run folder.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A file that was to be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Nothing of what was to be read has a known form.
    #[error(
        "no line of kafka-producer-perf-test and no row of kafka-consumer-perf-test in {files}: give files with what they printed"
    )]
    NothingToImport {
        /// The files.
        files: String,
    },
    /// A part could not be started.
    #[error("cannot start {part}: {source}")]
    Spawn {
        /// The part.
        part: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A part that was to stay has gone.
    #[error("{part} ended by itself: {reason}")]
    Ended {
        /// The part.
        part: &'static str,
        /// Its last words.
        reason: String,
    },
    /// A comparison of client libraries that cannot be begun.
    #[error("{0}")]
    Libraries(String),
    /// A run that would go on as another one.
    #[error("--resume {}: not the same run: {differences}; give the same options, or begin a new run", dir.display())]
    Resume {
        /// The run folder.
        dir: PathBuf,
        /// What was and what is.
        differences: String,
    },
    /// A child without the pipe it was given.
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

    /// Whose fault it is.
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
            Self::Spawn { .. } | Self::NoPipe | Self::Ended { .. } => ErrorClass::Instrument,
        }
    }
}
