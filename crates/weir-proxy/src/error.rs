//! Startup errors.

use std::net::SocketAddr;
use std::path::PathBuf;

/// An error at startup. A running proxy reports errors in metrics, health pages and the log.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// A configuration file that cannot be read.
    #[error("{path}: cannot read the file: {error}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        error: std::io::Error,
    },
    /// An invalid configuration.
    #[error("{file}: {reason}")]
    Config {
        /// Path of the file, or the command-line option.
        file: String,
        /// Key, value and remedy.
        reason: String,
    },
    /// An address that cannot be bound.
    #[error("cannot listen on {address} ({key}): {error}")]
    Listen {
        /// Address.
        address: SocketAddr,
        /// Configuration key of the address.
        key: String,
        /// Error from the operating system.
        error: std::io::Error,
    },
    /// An audit log that cannot be opened.
    #[error(transparent)]
    Audit(#[from] weir_access::audit::AuditError),
    /// A thread or a file descriptor that the operating system refused.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

impl ProxyError {
    /// Returns `true` if a change of the configuration or the command line can fix the error.
    pub fn is_config_error(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}
