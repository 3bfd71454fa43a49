//! Errors of the request parser.

/// A rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ParseError {
    /// HTTP status of the response.
    pub status: u16,
    /// Reason, for the response body and the log.
    pub reason: &'static str,
}

pub(super) const fn reject(status: u16, reason: &'static str) -> ParseError {
    ParseError { status, reason }
}
