//! What can go wrong with a lab, by whose fault it is, each with its remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{self, mib};
use crate::ports::Owner;

/// Whose fault an error is; a command turns this into its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Wrong settings, a missing tool, no room: the user can put it right and call again.
    Usage,
    /// Something that should answer does not: the broker, or the place packages come from.
    Unreachable,
    /// The caller asked to stop.
    Interrupted,
}

/// Why a lab or an SDK installation could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A setting has a value that cannot work.
    #[error("{name} \"{value}\": {reason}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The value given.
        value: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A program that is needed is not installed.
    #[error("{tool} not found{looked}: it is needed {purpose}; {remedy}")]
    MissingTool {
        /// Name of the program.
        tool: &'static str,
        /// Where it was looked for, or empty.
        looked: String,
        /// What for.
        purpose: String,
        /// How to get it.
        remedy: &'static str,
    },
    /// A program is there but too old.
    #[error("{tool} {found} is too old: {needed} or newer is needed; {remedy}")]
    OldTool {
        /// Name and path of the program.
        tool: String,
        /// Version found.
        found: String,
        /// Oldest version that will do.
        needed: &'static str,
        /// How to get it.
        remedy: &'static str,
    },
    /// A program is there but does not run.
    #[error("{} does not work: {detail}; repair or reinstall it", path.display())]
    BrokenTool {
        /// The program.
        path: PathBuf,
        /// What it said.
        detail: String,
    },
    /// Another process listens where a broker should.
    #[error(
        "port {port} is taken{}; stop that process, or choose another port (without --port free ones are taken)",
        by(owner.as_ref())
    )]
    PortTaken {
        /// The port.
        port: u16,
        /// Who has it, where that is readable.
        owner: Option<Owner>,
    },
    /// Too little room on the disk.
    #[error(
        "disk full at {}: {} MiB free, {} MiB needed; make room, or name a directory on another disk",
        dir.display(), mib(*free_bytes), mib(*needed_bytes)
    )]
    DiskFull {
        /// Directory on that disk.
        dir: PathBuf,
        /// Room left.
        free_bytes: u64,
        /// Room wanted.
        needed_bytes: u64,
    },
    /// A directory cannot be made or written.
    #[error("directory {} cannot be used: {error}; choose another one or change its permissions", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The repository has no such release.
    #[error("Apache Kafka {version} does not exist as a package: {detail}; see --kafka-version")]
    NoSuchVersion {
        /// The version asked for.
        version: String,
        /// Which part is missing.
        detail: String,
    },
    /// Packages could not be fetched.
    #[error(
        "{what} could not be fetched: {detail}; it is not cached yet, so this needs the network once"
    )]
    Fetch {
        /// What was to be fetched.
        what: String,
        /// The decisive line of the package tool.
        detail: String,
    },
    /// A driver of a client library could not be built.
    #[error("{what} could not be built: {detail}; its first build needs the network")]
    Build {
        /// What was to be built.
        what: String,
        /// The decisive line of the build tool.
        detail: String,
    },
    /// Another process works on the same directory.
    #[error("{} is in use by another weir lab command; wait for it, or choose another --dir", dir.display())]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// A lab with other settings runs in this directory.
    #[error(
        "a lab already runs in {} with {running}, not {asked}; run \"weir lab down\" first, or choose another --dir",
        dir.display()
    )]
    OtherLab {
        /// The directory.
        dir: PathBuf,
        /// The settings it runs with.
        running: String,
        /// The settings asked for.
        asked: String,
    },
    /// Some brokers of the lab in this directory run and some do not.
    #[error("the lab in {} is incomplete: {detail}; run \"weir lab down\" and start again", dir.display())]
    Incomplete {
        /// The directory.
        dir: PathBuf,
        /// Which brokers are missing.
        detail: String,
    },
    /// The state file cannot be understood.
    #[error("{} cannot be read: {detail}; if no broker runs there, remove the file", path.display())]
    BadState {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The directory has a file that is not ours in the way.
    #[error("{} is not a lab directory: it has files but no lab.json; choose an empty or new --dir", dir.display())]
    NotALab {
        /// The directory.
        dir: PathBuf,
    },
    /// The lab has no such broker.
    #[error("the lab has no broker {node_id}")]
    NoSuchBroker {
        /// The node id asked for.
        node_id: i32,
    },
    /// Storage could not be formatted.
    #[error("storage of broker {node_id} could not be formatted: {detail}")]
    Format {
        /// The node.
        node_id: i32,
        /// The decisive line.
        detail: String,
    },
    /// A broker ended before it answered.
    #[error("broker {node_id} ended during start ({status}): {detail}; see {}", log.display())]
    BrokerDied {
        /// The node.
        node_id: i32,
        /// How it ended.
        status: String,
        /// The decisive lines of its log.
        detail: String,
        /// Its log.
        log: PathBuf,
    },
    /// The brokers did not answer in time.
    #[error("the lab did not answer within {seconds} s ({missing}): {detail}; see {}", log.display())]
    NotReady {
        /// The time given.
        seconds: u64,
        /// Who did not answer.
        missing: String,
        /// The last lines of the log.
        detail: String,
        /// The log.
        log: PathBuf,
    },
    /// A broker does not end, not even when killed.
    #[error("broker {node_id} (pid {pid}) does not end; its data was left in place")]
    StillRunning {
        /// The node.
        node_id: i32,
        /// Its process.
        pid: u32,
    },
    /// The caller asked to stop.
    #[error("interrupted while {doing}; what was started has been stopped")]
    Interrupted {
        /// What was going on.
        doing: &'static str,
    },
    /// A file or process operation failed.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        error: io::Error,
    },
}

impl LabError {
    /// Whose fault this is.
    #[must_use]
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Interrupted { .. } => ErrorClass::Interrupted,
            Self::Fetch { .. }
            | Self::Build { .. }
            | Self::BrokerDied { .. }
            | Self::NotReady { .. }
            | Self::StillRunning { .. } => ErrorClass::Unreachable,
            _ => ErrorClass::Usage,
        }
    }

    /// A file operation in `dir` failed: a full disk is told apart.
    pub fn file(dir: &Path, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::StorageFull {
            return Self::full(dir);
        }
        Self::Directory {
            dir: dir.to_owned(),
            error,
        }
    }

    /// The disk of `dir` turned out to be full.
    pub(crate) fn full(dir: &Path) -> Self {
        Self::DiskFull {
            dir: dir.to_owned(),
            free_bytes: disk::free_bytes(dir).unwrap_or(0),
            needed_bytes: ROOM_ADVISED,
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

/// What a small lab is comfortable with.
const ROOM_ADVISED: u64 = 1 << 30;
