//! HTTP/1.1 for small requests, read whole, and responses, sent whole or in chunks.

mod chunked;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod request;
mod response;

pub use chunked::{CHUNK_BYTES_MAX, LAST_CHUNK, push_chunk};
pub use request::{
    BodyProgress, HttpRequest, ParseLimits, Parsed, parse_request, parse_request_incremental,
};
pub use response::{Response, write_upgrade};

/// A rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ParseError {
    /// HTTP status of the response.
    pub status: u16,
    /// Reason, for the response body and the log.
    pub reason: &'static str,
}

const fn reject(status: u16, reason: &'static str) -> ParseError {
    ParseError { status, reason }
}
