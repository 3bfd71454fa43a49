//! TLCP 2.5.0, both ends: codec, session and subscription state machines. The server's end also
//! speaks older versions ([`Version`]).
//!
//! Pure: no sockets, no clock, no randomness, no logging. Bytes, `now_ms` (milliseconds of any
//! monotonic clock) and random bytes are arguments; output is appended to a caller's buffer.
//! Framing (WebSocket, HTTP) and the meaning of groups and schemas belong to the callers.

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
pub mod fuzz;

pub use codes::{ControlCode, SessionCode};
pub use error::{DecodeError, LineError, RequestError};
pub use request::{Mode, Request, parse_http_request, parse_ws_message};
pub use version::Version;

/// Protocol name in the `LS_protocol` query parameter of HTTP requests.
pub const PROTOCOL: &str = "TLCP-2.5.0";

/// WebSocket subprotocol a client offers and the server must echo exactly.
pub const WEBSOCKET_SUBPROTOCOL: &str = "TLCP-2.5.0.lightstreamer.com";

/// Path prefix of every request target, fixed by the protocol.
pub const PATH_PREFIX: &str = "/lightstreamer";

/// `LS_cid` value the specification assigns to clients that are not an official SDK.
pub const CUSTOM_CLIENT_CID: &str = "mgQkwtwdysogQz2BJ4Ji kOj2Bg";
