//! WebSocket (RFC 6455) without sockets: handshake, frame writers and an incremental reader, for
//! both ends. Text messages only, compressed if that was agreed on; what TLCP puts into a message is
//! not known here.

mod deflate;
mod error;
mod extension;
pub mod frame;
mod frame_header;
#[doc(hidden)]
pub mod fuzz;
pub mod handshake;
mod reader;

pub use deflate::{Deflater, Inflater};
pub use error::FrameError;
pub use extension::{Agreement, DeflateWindow, OFFER};
pub use frame::{
    FrameRole, HEADER_BYTES_MAX, Opcode, encode_server_text_header, push_client_frame, push_close,
    push_deflated_server_text, push_pong, push_server_frame, push_server_text, server_text_payload,
};
pub use handshake::{
    HandshakeError, Opened, accept_key, client_request, new_client_key, parse_server_response,
};
pub use reader::{FrameEvent, WebSocketFrameReader};

#[cfg(test)]
mod tests;
