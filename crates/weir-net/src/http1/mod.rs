//! HTTP/1.1 for small requests, read whole, and responses, sent whole or in chunks; for clients,
//! responses with server-sent events.

mod chunked;
mod event_stream;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod request;
mod response;

pub use chunked::{CHUNK_BYTES_MAX, LAST_CHUNK, push_chunk};
pub use event_stream::{EventStreamReader, StreamEnd, StreamEvent};
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
