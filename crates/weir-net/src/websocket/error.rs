//! Violations of the WebSocket protocol.

use thiserror::Error;

/// What a peer did wrong. The connection cannot go on: send a close frame with
/// [`FrameError::close_code`] and end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A reserved header bit, which only an extension that was agreed on may set, and only where a
    /// message begins.
    #[error("reserved bits set in a websocket frame without an agreed extension")]
    ReservedBits,
    /// An opcode the standard does not define.
    #[error("unknown websocket opcode {0:#x}")]
    UnknownOpcode(u8),
    /// A binary message; TLCP is text.
    #[error("binary websocket message where only text is allowed")]
    Binary,
    /// A client frame without a mask.
    #[error("unmasked websocket frame from a client")]
    Unmasked,
    /// A server frame with a mask.
    #[error("masked websocket frame from a server")]
    Masked,
    /// A control frame in pieces.
    #[error("fragmented websocket control frame")]
    FragmentedControl,
    /// A control frame of more than 125 bytes.
    #[error("websocket control frame longer than 125 bytes")]
    ControlTooLong,
    /// A length not in its shortest form, or with the top bit set.
    #[error("malformed websocket payload length")]
    BadLength,
    /// A continuation frame while no message is open.
    #[error("websocket continuation frame without a message to continue")]
    NothingToContinue,
    /// A new message while the one before is incomplete.
    #[error("new websocket message inside a fragmented one")]
    MessageOpen,
    /// A close frame whose payload is one byte or whose code may not be sent.
    #[error("malformed websocket close frame")]
    BadClose,
    /// Text that is not UTF-8.
    #[error("websocket text is not utf-8")]
    NotUtf8,
    /// A compressed message that cannot be inflated by itself.
    #[error("compressed websocket message cannot be inflated")]
    BadDeflate,
    /// A message beyond the reader's limit.
    #[error("websocket message longer than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

impl FrameError {
    /// The close code that tells the peer (RFC 6455, 7.4.1).
    pub fn close_code(self) -> u16 {
        match self {
            Self::Binary => 1003,
            Self::NotUtf8 | Self::BadDeflate => 1007,
            Self::TooLarge { .. } => 1009,
            _ => 1002,
        }
    }
}
