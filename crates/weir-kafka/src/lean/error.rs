//! Errors of the consumers.

use thiserror::Error;

use crate::records::RecordsError;
use crate::wire::{EncodeError, WireError};

/// Reason why a consumer lost its connection or why [`run`](super::run) could not start.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LeanError {
    /// An invalid configuration value.
    #[error("{key} = \"{value}\": {remedy}")]
    Config {
        /// Field of [`LeanConfig`](super::LeanConfig).
        key: &'static str,
        /// Value of the field.
        value: String,
        /// Instruction to correct it.
        remedy: &'static str,
    },
    /// No bootstrap server returned usable metadata.
    #[error("no usable Kafka broker at \"{bootstrap_servers}\": {reason}")]
    Unreachable {
        /// Configured bootstrap servers.
        bootstrap_servers: String,
        /// Error of the last server.
        reason: String,
    },
    /// The connection to a broker failed or was closed.
    #[error("connection to broker {address}: {reason}")]
    Connection {
        /// Address of the broker.
        address: String,
        /// Cause.
        reason: String,
    },
    /// A broker returned an error code.
    #[error("{what}: Kafka error code {code}")]
    Kafka {
        /// Request and its topic or group.
        what: String,
        /// Kafka's error code.
        code: i16,
    },
    /// A response that violates the protocol.
    #[error("invalid response: {0}")]
    Wire(#[from] WireError),
    /// Record batches that cannot be decoded.
    #[error("invalid records: {0}")]
    Records(#[from] RecordsError),
    /// A request that could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
