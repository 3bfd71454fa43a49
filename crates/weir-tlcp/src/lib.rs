//! Client and server end of TLCP 2.5.0: codec, session and subscription state machines. The server
//! end also supports older versions ([`Version`]).
//!
//! The crate has no sockets, clock, randomness or logging. Bytes, `now_ms` (milliseconds of a
//! monotonic clock) and random bytes are arguments, and output is appended to a buffer of the
//! caller. Callers handle framing (WebSocket, HTTP) and interpret item groups and field schemas.

pub mod client;
pub mod codes;
pub mod diff;
pub mod error;
pub mod request;
mod secret;
pub mod server;
pub mod text;
mod version;

#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod tests;

pub use codes::{ControlCode, SessionCode};
pub use error::{DecodeError, LineError, RequestError};
pub use request::{Mode, Request, parse_http_request, parse_ws_message};
pub use version::Version;

/// Protocol name in the `LS_protocol` query parameter of HTTP requests.
pub const PROTOCOL: &str = "TLCP-2.5.0";

/// WebSocket subprotocol that a client offers and the server must repeat exactly.
pub const WEBSOCKET_SUBPROTOCOL: &str = "TLCP-2.5.0.lightstreamer.com";

/// Path prefix of all request targets.
pub const PATH_PREFIX: &str = "/lightstreamer";

/// `LS_cid` value that the specification assigns to custom clients.
pub const CUSTOM_CLIENT_CID: &str = "mgQkwtwdysogQz2BJ4Ji kOj2Bg";
