//! Reasons for the end of an outgoing connection.

use std::io;

use thiserror::Error;

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DisconnectReason {
    /// It was never open.
    #[error("connect failed: {0}")]
    ConnectFailed(io::ErrorKind),
    /// No answer within [`super::ClientOptions::connect_timeout`].
    #[error("connect timed out")]
    ConnectTimeout,
    /// The peer ended it in order.
    #[error("closed by the server")]
    ByPeer,
    /// Reading or writing failed, as after a reset.
    #[error("connection failed: {0}")]
    Failed(io::ErrorKind),
    /// TLS could not be agreed upon, or was broken.
    #[error("TLS failed: {0}")]
    Tls(&'static str),
    /// The peer does not read and the write queue is full.
    #[error("write queue full")]
    WriteQueueFull,
}
