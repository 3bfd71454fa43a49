//! Errors of the simulated clients.

use std::io;

use thiserror::Error;

use crate::error::ErrorClass;

/// Error of the simulated clients.
#[derive(Debug, Error)]
pub enum ClientsError {
    /// The server's address cannot be used.
    #[error("--url {0}: {1}, write for example ws://127.0.0.1:8080")]
    Server(String, String),
    /// Each client needs a file descriptor.
    #[error(
        "{clients} clients need {needed} file descriptors, the limit is {allowed}: raise the hard \
             limit (ulimit -Hn), use fewer clients, or distribute them with --engine local"
    )]
    Descriptors {
        /// Number of requested clients.
        clients: usize,
        /// Number of file descriptors they need.
        needed: u64,
        /// Hard limit of file descriptors.
        allowed: u64,
    },
    /// No client could connect to the servers, or these rejected all sessions; the most frequent
    /// reason.
    #[error("no client could subscribe at {0}: {1}")]
    Unreachable(String, String),
    /// The event loop failed.
    #[error("event loop of the clients failed: {0}")]
    Io(#[from] io::Error),
}

impl ClientsError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Server(..) => ErrorClass::Usage,
            Self::Unreachable(..) => ErrorClass::Target,
            Self::Descriptors { .. } | Self::Io(_) => ErrorClass::Instrument,
        }
    }
}
