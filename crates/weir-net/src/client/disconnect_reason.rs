//! Reasons for the end of an outgoing connection.

use std::io;

use thiserror::Error;

/// Reason for the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DisconnectReason {
    /// The connection could not be opened.
    #[error("connect failed: {0}")]
    ConnectFailed(io::ErrorKind),
    /// No response within [`super::ClientOptions::connect_timeout`].
    #[error("connect timed out")]
    ConnectTimeout,
    /// The peer closed the connection.
    #[error("closed by the server")]
    ByPeer,
    /// Reading or writing failed, as after a reset.
    #[error("connection failed: {0}")]
    Failed(io::ErrorKind),
    /// The TLS handshake failed, or the peer violated the protocol.
    #[error("TLS failed: {0}")]
    Tls(&'static str),
    /// The peer does not read and the write queue is full.
    #[error("write queue full")]
    WriteQueueFull,
}
