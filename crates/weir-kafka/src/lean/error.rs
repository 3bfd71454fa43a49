//! Errors of the consumers.

use thiserror::Error;

use crate::secure::{SecurityError, TlsFailure};
use weir_sasl::client::LoginError;
use weir_wire::records::RecordsError;
use weir_wire::{EncodeError, WireError};

/// Reason why a consumer lost its connection or why [`run`](super::run) could not start.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum LeanError {
    #[error("{key} = \"{value}\": {remedy}")]
    Config {
        key: &'static str,
        value: String,
        remedy: &'static str,
    },
    #[error("no usable Kafka broker at \"{bootstrap_servers}\": {reason}")]
    Unreachable {
        bootstrap_servers: String,
        reason: String,
    },
    #[error("connection to broker {address}: {reason}")]
    Connection { address: String, reason: String },
    #[error("connection to broker {address}: {failure}")]
    Encryption {
        address: String,
        failure: Box<TlsFailure>,
    },
    #[error("connection to broker {address}: {error}")]
    Login {
        address: String,
        error: Box<LoginError>,
    },
    #[error(transparent)]
    Security(Box<SecurityError>),
    #[error("{what}: Kafka error code {code}")]
    Kafka { what: String, code: i16 },
    #[error("invalid response: {0}")]
    Wire(#[from] WireError),
    #[error("invalid records: {0}")]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl LeanError {
    /// Returns `true` if a broker or this program rejected the other, so that another attempt with
    /// the same settings is expected to fail as well.
    pub fn is_rejection(&self) -> bool {
        match self {
            Self::Encryption { failure, .. } => failure.is_final(),
            Self::Login { error, .. } => error.is_final(),
            Self::Security(_) => true,
            _ => false,
        }
    }
}
