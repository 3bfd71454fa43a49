//! Errors of the request parser.

/// A request that is not served; `status` says how to answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ParseError {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The reason, for the answer's body and the log.
    pub reason: &'static str,
}

pub(super) const fn reject(status: u16, reason: &'static str) -> ParseError {
    ParseError { status, reason }
}
