//! Violations of the WebSocket protocol.

use thiserror::Error;

/// Protocol violation of a peer. The connection cannot continue: send a close frame with
/// [`FrameError::close_code`] and close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A reserved header bit is set. Only a negotiated extension may set it, in the first frame of
    /// a message.
    #[error("reserved bits set in a websocket frame without a negotiated extension")]
    ReservedBits,
    /// Undefined opcode.
    #[error("unknown websocket opcode {0:#x}")]
    UnknownOpcode(u8),
    /// Binary message; TLCP is text.
    #[error("binary websocket message where only text is allowed")]
    Binary,
    /// Client frame without a mask.
    #[error("unmasked websocket frame from a client")]
    Unmasked,
    /// Server frame with a mask.
    #[error("masked websocket frame from a server")]
    Masked,
    /// Control frame in fragments.
    #[error("fragmented websocket control frame")]
    FragmentedControl,
    /// Control frame of more than 125 bytes.
    #[error("websocket control frame longer than 125 bytes")]
    ControlTooLong,
    /// Length not in its shortest form, or with the top bit set.
    #[error("malformed websocket payload length")]
    BadLength,
    /// Continuation frame without an open message.
    #[error("websocket continuation frame without a message to continue")]
    NothingToContinue,
    /// New message before the previous one is complete.
    #[error("new websocket message inside a fragmented one")]
    MessageOpen,
    /// Close frame with a payload of one byte or with an invalid code.
    #[error("malformed websocket close frame")]
    BadClose,
    /// Text that is not UTF-8.
    #[error("websocket text is not utf-8")]
    NotUtf8,
    /// Compressed message that cannot be inflated on its own.
    #[error("compressed websocket message cannot be inflated")]
    BadDeflate,
    /// Message over the reader's limit.
    #[error("websocket message longer than {limit} bytes")]
    TooLarge {
        /// Limit in bytes.
        limit: usize,
    },
}

impl FrameError {
    /// Returns the close code for the error (RFC 6455, 7.4.1).
    pub fn close_code(self) -> u16 {
        match self {
            Self::Binary => 1003,
            Self::NotUtf8 | Self::BadDeflate => 1007,
            Self::TooLarge { .. } => 1009,
            _ => 1002,
        }
    }
}
