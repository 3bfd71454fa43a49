//! WebSocket protocol (RFC 6455) for both ends, independent of sockets: handshake, frame writers
//! and an incremental reader. Text messages only, compressed if that was negotiated. The text
//! (TLCP) is not interpreted.

mod deflate;
mod error;
mod extension;
mod frame;
mod frame_header;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handshake;
mod reader;

pub use deflate::{Deflater, Inflater};
pub use error::FrameError;
pub use extension::{DeflateParams, DeflateWindow, OFFER};
pub use frame::{
    FrameRole, HEADER_BYTES_MAX, Opcode, push_client_frame, push_close, push_deflated_server_text,
    push_pong, push_server_text, server_text_payload,
};
pub use handshake::{
    HandshakeError, Opened, accept_key, client_request, new_client_key, parse_server_response,
};
pub use reader::{FrameEvent, WebSocketFrameReader};

#[cfg(test)]
mod tests;
