//! Outcomes of requests.

use thiserror::Error;
use weir_identity::ari::{AdapterException, AdapterReply, AriError};

/// Outcome of a request.
pub type AdapterOutcome = Result<AdapterReply, AdapterFailure>;

/// Failed request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdapterFailure {
    /// The adapter raised an exception.
    #[error("the adapter rejected the request")]
    Exception(AdapterException),
    /// The reply has a bad value or count.
    #[error("the adapter's reply is invalid: {0}")]
    Invalid(AriError),
    /// No adapter is connected, or the connection was lost before the reply.
    #[error("the adapter is not connected")]
    Down,
    /// No reply in time.
    #[error("the adapter did not reply in time")]
    Timeout,
    /// Too many requests wait for replies.
    #[error("too many requests wait for the adapter")]
    Overloaded,
}

impl AdapterFailure {
    /// Returns `true` if the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Down | Self::Timeout | Self::Overloaded)
    }
}
