//! Why a gateway does not start, by whose fault it is.

use std::net::SocketAddr;
use std::path::PathBuf;

/// An error at start-up; once running, trouble is reported by metrics, health and log.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A configuration file cannot be read.
    #[error("{path}: cannot read the file: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// The connector's configuration is wrong.
    #[error(transparent)]
    Mapping(#[from] weir_mapping::ConfigError),
    /// The gateway's own configuration is wrong.
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
        key: &'static str,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// A certificate and its key cannot be used.
    #[error("tls.certificate = {certificate}, tls.key = {key}: {error}")]
    Tls {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong with them.
        error: weir_net::tls::TlsError,
    },
    /// The operating system refuses a thread or a descriptor.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

impl GatewayError {
    /// Whether the operator can mend it in a configuration or on the command line.
    pub fn is_configuration(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}
