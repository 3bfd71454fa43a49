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

/// Result of an operation of a lab or an installation.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

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
    /// Program that does not run, with its error or output.
    #[error("{} does not work: {_1}; repair or reinstall it", _0.display())]
    BrokenTool(PathBuf, String),
    /// Port on which another process listens, which this user may not see.
    #[error(
        "port {_0} is in use{}; stop that process, use another port, or omit --port to use free \
         ports",
        by(_1.as_ref())
    )]
    PortTaken(u16, Option<Owner>),
    /// Directory on a disk with less free space than needed, both in bytes.
    #[error(
        "disk full at {}: {} MiB free, {} MiB needed; free some space, or use a directory on \
         another disk",
        _0.display(), mib(*_1), mib(*_2)
    )]
    DiskFull(PathBuf, u64, u64),
    /// Directory that cannot be created or written.
    #[error(
        "directory {} cannot be used: {_1}; use another one or change its permissions",
        _0.display()
    )]
    Directory(PathBuf, io::Error),
    /// Release that does not exist in the repository, and the missing artifact.
    #[error(
        "Apache Kafka \"{0}\" does not exist as a package: no artifact {1}; use another \
         --kafka-version"
    )]
    NoSuchVersion(String, String),
    /// Failed download of packages, with the relevant line of the package tool's output.
    #[error("{0} could not be downloaded: {1}; it is not cached yet, so network access is needed")]
    Fetch(String, String),
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
        _0.display()
    )]
    Busy(PathBuf),
    /// Running lab in a directory with other options than the requested ones.
    #[error(
        "a lab is already running in {} with {_1}, requested is {_2}; stop it with \
         \"weir lab down\", or use another --dir",
        _0.display()
    )]
    OtherLab(PathBuf, String, String),
    /// Lab of which some brokers are not running.
    #[error(
        "the lab in {} is incomplete: {_1}; stop it with \"weir lab down\" and start it again",
        _0.display()
    )]
    Incomplete(PathBuf, String),
    /// Invalid state file.
    #[error("{} is invalid: {_1}; if no broker is running there, remove the file", _0.display())]
    BadState(PathBuf, String),
    /// Directory with files that do not belong to a lab.
    #[error(
        "{} is not a lab directory: it contains files but no lab.json; use an empty or new --dir",
        _0.display()
    )]
    NotALab(PathBuf),
    /// Unknown broker.
    #[error("the lab has no broker {0}")]
    NoSuchBroker(i32),
    /// Failed formatting of a broker's storage, with the relevant line of the output.
    #[error("broker {0}: storage could not be formatted: {1}")]
    Format(i32, String),
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
    /// Broker or other server, with its process id, that does not end even when killed.
    #[error("{0} (pid {1}) does not end; its data was not removed")]
    StillRunning(String, u32),
    /// Certificate or key that could not be made or read.
    #[error("certificates of the lab: {0}; remove its directory to make new ones")]
    Certificate(String),
    /// Server next to the brokers that exited before it was ready.
    #[error("{name} exited during start ({status}): {detail}; see {}", log.display())]
    ServerExited {
        /// Name of the server.
        name: &'static str,
        /// Exit status.
        status: String,
        /// Relevant line of the log.
        detail: String,
        /// Path of the log.
        log: PathBuf,
    },
    /// Server next to the brokers that was not ready in time.
    #[error(
        "{name} was not ready within {seconds} s (last attempt: {detail}); see {}",
        log.display()
    )]
    ServerNotReady {
        /// Name of the server.
        name: &'static str,
        /// The timeout.
        seconds: u64,
        /// Reason of the last failed attempt.
        detail: String,
        /// Path of the log.
        log: PathBuf,
    },
    /// Failed request to a server of the lab.
    #[error("{0} rejected a request with status {1}: {2}")]
    Rejected(&'static str, u16, String),
    /// Activity that the caller stopped.
    #[error("interrupted while {0}; all started processes were stopped")]
    Interrupted(&'static str),
    /// Failed file or process operation.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

impl LabError {
    /// Returns the class of the error.
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Interrupted(_) => ErrorClass::Interrupted,
            Self::Fetch(..)
            | Self::Build { .. }
            | Self::BrokerExited { .. }
            | Self::NotReady { .. }
            | Self::ServerExited { .. }
            | Self::ServerNotReady { .. }
            | Self::Rejected(..)
            | Self::StillRunning(..) => ErrorClass::Unreachable,
            _ => ErrorClass::Usage,
        }
    }

    /// Creates the error of a file operation in `dir`, with a separate variant for a full disk.
    pub fn file(dir: &Path, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull => Self::full(dir),
            _ => Self::Directory(dir.to_owned(), error),
        }
    }

    /// Creates the error for a full disk.
    pub(crate) fn full(dir: &Path) -> Self {
        let free_bytes = disk_space::free_bytes(dir).unwrap_or(0);
        Self::DiskFull(dir.to_owned(), free_bytes, RECOMMENDED_BYTES)
    }

    pub(crate) fn io(what: impl Into<String>, error: io::Error) -> Self {
        Self::Io(what.into(), error)
    }

    pub(crate) fn option(name: &'static str, value: &dyn ToString, reason: &str) -> Self {
        Self::Setting {
            name,
            value: value.to_string(),
            reason: reason.to_owned(),
        }
    }
}

fn by(owner: Option<&Owner>) -> String {
    owner.map_or_else(String::new, |owner| {
        format!(" by {} (pid {})", owner.name, owner.pid)
    })
}

const RECOMMENDED_BYTES: u64 = 1 << 30;
