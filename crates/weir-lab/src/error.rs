//! Errors of labs and installations, with their class and remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk_space::{self, mib};
use crate::port_owner::Owner;

/// Class of an error, which decides the exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Wrong options, a missing tool or a full disk, which the user can correct.
    Usage,
    /// Broker or package repository that does not respond.
    Unreachable,
    /// Stopped by the caller.
    Interrupted,
}

/// Errors of a lab or an installation.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Invalid value of an option.
    #[error("{name} \"{value}\": {reason}")]
    Setting {
        /// Name of the option.
        name: &'static str,
        /// The given value.
        value: String,
        /// The problem and valid values.
        reason: String,
    },
    /// Required program that is not installed.
    #[error("{tool} not found{looked}: it is needed {purpose}; {remedy}")]
    MissingTool {
        /// Name of the program.
        tool: &'static str,
        /// Searched locations, or empty.
        looked: String,
        /// Purpose of the program.
        purpose: String,
        /// Instruction to install it.
        remedy: &'static str,
    },
    /// Program that is too old.
    #[error("{tool} {found} is too old: {needed} or newer is needed; {remedy}")]
    OldTool {
        /// Name and path of the program.
        tool: String,
        /// Installed version.
        found: String,
        /// Oldest supported version.
        needed: &'static str,
        /// Instruction to install a newer version.
        remedy: &'static str,
    },
    /// Program that does not run.
    #[error("{} does not work: {detail}; repair or reinstall it", path.display())]
    BrokenTool {
        /// Path of the program.
        path: PathBuf,
        /// Error or output of the program.
        detail: String,
    },
    /// Port on which another process listens.
    #[error(
        "port {port} is in use{}; stop that process, use another port, or omit --port to use free \
         ports",
        by(owner.as_ref())
    )]
    PortTaken {
        /// The port.
        port: u16,
        /// The process that listens, if this user can see it.
        owner: Option<Owner>,
    },
    /// Too little free disk space.
    #[error(
        "disk full at {}: {} MiB free, {} MiB needed; free some space, or use a directory on \
         another disk",
        dir.display(), mib(*free_bytes), mib(*needed_bytes)
    )]
    DiskFull {
        /// Directory on that disk.
        dir: PathBuf,
        /// Free space.
        free_bytes: u64,
        /// Required space.
        needed_bytes: u64,
    },
    /// Directory that cannot be created or written.
    #[error(
        "directory {} cannot be used: {error}; use another one or change its permissions",
        dir.display()
    )]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Release that does not exist in the repository.
    #[error(
        "Apache Kafka \"{version}\" does not exist as a package: {detail}; use another \
         --kafka-version"
    )]
    NoSuchVersion {
        /// The requested version.
        version: String,
        /// The missing artifact.
        detail: String,
    },
    /// Failed download of packages.
    #[error(
        "{what} could not be downloaded: {detail}; it is not cached yet, so network access is \
         needed"
    )]
    Fetch {
        /// Name of the packages.
        what: String,
        /// Relevant line of the package tool's output.
        detail: String,
    },
    /// Failed build of a client library's driver.
    #[error("{what} could not be built: {detail}; the first build needs network access")]
    Build {
        /// Name of the driver.
        what: String,
        /// Relevant line of the build tool's output.
        detail: String,
    },
    /// Directory in use by another command.
    #[error(
        "{} is in use by another weir lab command; wait for it, or use another --dir",
        dir.display()
    )]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// Running lab with other options in the same directory.
    #[error(
        "a lab is already running in {} with {running}, requested is {requested}; stop it with \
         \"weir lab down\", or use another --dir",
        dir.display()
    )]
    OtherLab {
        /// The directory.
        dir: PathBuf,
        /// Options of the running lab.
        running: String,
        /// Requested options.
        requested: String,
    },
    /// Lab of which some brokers are not running.
    #[error(
        "the lab in {} is incomplete: {detail}; stop it with \"weir lab down\" and start it again",
        dir.display()
    )]
    Incomplete {
        /// The directory.
        dir: PathBuf,
        /// The missing brokers.
        detail: String,
    },
    /// Invalid state file.
    #[error(
        "{} is invalid: {detail}; if no broker is running there, remove the file",
        path.display()
    )]
    BadState {
        /// The file.
        path: PathBuf,
        /// The problem.
        detail: String,
    },
    /// Directory with files that do not belong to a lab.
    #[error(
        "{} is not a lab directory: it contains files but no lab.json; use an empty or new --dir",
        dir.display()
    )]
    NotALab {
        /// The directory.
        dir: PathBuf,
    },
    /// Unknown broker.
    #[error("the lab has no broker {node_id}")]
    NoSuchBroker {
        /// The requested node id.
        node_id: i32,
    },
    /// Failed formatting of the storage.
    #[error("broker {node_id}: storage could not be formatted: {detail}")]
    Format {
        /// Node id of the broker.
        node_id: i32,
        /// Relevant line of the output.
        detail: String,
    },
    /// Broker that exited before it was ready.
    #[error("broker {node_id} exited during start ({status}): {detail}; see {}", log.display())]
    BrokerExited {
        /// Node id of the broker.
        node_id: i32,
        /// Exit status.
        status: String,
        /// Relevant lines of the log.
        detail: String,
        /// Path of the log.
        log: PathBuf,
    },
    /// Brokers that were not ready in time.
    #[error(
        "the lab was not ready within {seconds} s ({missing}): {detail}; see {}",
        log.display()
    )]
    NotReady {
        /// The timeout.
        seconds: u64,
        /// The brokers that were not ready.
        missing: String,
        /// Last lines of the log.
        detail: String,
        /// Path of the log.
        log: PathBuf,
    },
    /// Broker that does not end even when killed.
    #[error("broker {node_id} (pid {pid}) does not end; its data was not removed")]
    StillRunning {
        /// Node id of the broker.
        node_id: i32,
        /// Process id.
        pid: u32,
    },
    /// Stopped by the caller.
    #[error("interrupted while {doing}; all started processes were stopped")]
    Interrupted {
        /// The interrupted activity.
        doing: &'static str,
    },
    /// Failed file or process operation.
    #[error("{what}: {error}")]
    Io {
        /// The operation.
        what: String,
        /// Error of the system.
        error: io::Error,
    },
}

impl LabError {
    /// Returns the class of the error.
    #[must_use]
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Interrupted { .. } => ErrorClass::Interrupted,
            Self::Fetch { .. }
            | Self::Build { .. }
            | Self::BrokerExited { .. }
            | Self::NotReady { .. }
            | Self::StillRunning { .. } => ErrorClass::Unreachable,
            _ => ErrorClass::Usage,
        }
    }

    /// Creates the error of a file operation in `dir`, with a separate variant for a full disk.
    pub fn file(dir: &Path, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::StorageFull {
            return Self::full(dir);
        }
        Self::Directory {
            dir: dir.to_owned(),
            error,
        }
    }

    /// Creates the error for a full disk.
    pub(crate) fn full(dir: &Path) -> Self {
        Self::DiskFull {
            dir: dir.to_owned(),
            free_bytes: disk_space::free_bytes(dir).unwrap_or(0),
            needed_bytes: RECOMMENDED_BYTES,
        }
    }

    pub(crate) fn io(what: impl Into<String>, error: io::Error) -> Self {
        Self::Io {
            what: what.into(),
            error,
        }
    }
}

fn by(owner: Option<&Owner>) -> String {
    owner.map_or_else(String::new, |owner| {
        format!(" by {} (pid {})", owner.name, owner.pid)
    })
}

/// Recommended free space for a small lab.
const RECOMMENDED_BYTES: u64 = 1 << 30;
