//! Why a proxy does not start, by whose fault it is.

use std::net::SocketAddr;
use std::path::PathBuf;

use weir_net::tls::TlsError;

/// An error at start-up; once running, trouble is reported by metrics, health and log.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// A configuration file cannot be read.
    #[error("{path}: cannot read the file: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// The configuration is wrong.
    #[error("{file}: {reason}")]
    Config {
        /// The file, or the option as typed.
        file: String,
        /// Key, value and remedy.
        reason: String,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({key}): {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The option that sets it.
        key: String,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// Certificates or keys cannot be used.
    #[error("{file}: {key}: {error}")]
    Tls {
        /// The configuration's file.
        file: String,
        /// The table with the files.
        key: String,
        /// What is wrong with them.
        error: TlsError,
    },
    /// The operating system refuses a thread or a descriptor.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

impl ProxyError {
    /// Whether the operator can mend it in a configuration or on the command line.
    #[must_use]
    pub fn is_config_error(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}
