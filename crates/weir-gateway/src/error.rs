//! Why a gateway does not start, by whose fault it is.

use std::net::SocketAddr;
use std::path::PathBuf;

use weir_mapping::Location;

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
    /// A line of one of the gateway's own files is wrong.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// Line number from 1.
        line: u32,
        /// Key, value and remedy.
        reason: String,
    },
    /// Several mistakes, at least two.
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
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

fn lines(errors: &[GatewayError]) -> String {
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl GatewayError {
    /// Joins mistakes; `None` if there are none.
    pub(crate) fn join(errors: Vec<Self>) -> Option<Self> {
        let apart = |error| match error {
            Self::Several(errors) => errors,
            one => vec![one],
        };
        let mut errors: Vec<_> = errors.into_iter().flat_map(apart).collect();
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    /// Returns the mistakes one by one.
    pub fn each(&self) -> &[Self] {
        match self {
            Self::Several(errors) => errors,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns the place in a configuration file, if there is one, and what is wrong there.
    pub fn place(&self) -> (Option<Location>, String) {
        let at = |file: String, line| {
            let connection = None;
            Some(Location {
                file,
                line,
                connection,
            })
        };
        match self {
            Self::Mapping(error) => (Some(error.at.clone()), error.problem.to_string()),
            Self::Config { file, reason } => (at(file.clone(), None), reason.clone()),
            Self::Line { file, line, reason } => (at(file.clone(), Some(*line)), reason.clone()),
            Self::Read { path, error } => (
                at(path.display().to_string(), None),
                format!("cannot read the file: {error}"),
            ),
            other => (None, other.to_string()),
        }
    }

    /// Whether the operator can mend it in a configuration or on the command line.
    pub fn is_config_error(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}
