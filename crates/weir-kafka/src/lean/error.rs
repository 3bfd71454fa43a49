//! Errors of the consumers.

use thiserror::Error;

use crate::records::RecordsError;
use crate::wire::{EncodeError, WireError};

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
    #[error("{what}: Kafka error code {code}")]
    Kafka { what: String, code: i16 },
    #[error("invalid response: {0}")]
    Wire(#[from] WireError),
    #[error("invalid records: {0}")]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
