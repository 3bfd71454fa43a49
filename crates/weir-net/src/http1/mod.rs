//! HTTP/1.1 for small requests, read whole, and responses, sent whole or in chunks.

mod chunked;
mod error;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod request;
mod response;

pub use chunked::{CHUNK_BYTES_MAX, LAST_CHUNK, push_chunk};
pub use error::ParseError;
pub use request::{
    BodyProgress, HttpRequest, ParseLimits, Parsed, parse_request, parse_request_incremental,
};
pub use response::{Response, write_upgrade};
