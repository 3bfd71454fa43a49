//! Violations of the protocol by an adapter.

use thiserror::Error;

/// Violation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum AriError {
    #[error("line has more than 1,048,576 bytes")]
    LineTooLong,
    #[error("line is not UTF-8")]
    Utf8,
    #[error("line is not ID|METHOD|...")]
    Line,
    #[error("unknown method")]
    UnknownMethod,
    #[error("reply has another method than its request")]
    OtherMethod,
    #[error("type {expected} expected")]
    Type { expected: char },
    #[error("value is missing")]
    Missing,
    #[error("value of type {kind} is invalid")]
    Value { kind: char },
    #[error("values follow the last one")]
    Trailing,
    #[error("list has more than 10,000 values")]
    TooMany,
    #[error("reply has {found} entries, expected {expected}")]
    Count { found: usize, expected: usize },
    #[error("exception type is unknown, or not one of the method")]
    Exception,
    #[error("unsupported protocol version")]
    Version,
}

impl AriError {
    /// Returns `true` if the connection must be closed. Other errors spoil one reply.
    pub fn is_fatal(self) -> bool {
        match self {
            Self::LineTooLong | Self::Utf8 | Self::Line => true,
            Self::UnknownMethod | Self::OtherMethod | Self::Version => true,
            Self::Type { .. } | Self::Missing | Self::Value { .. } | Self::Trailing => false,
            Self::TooMany | Self::Count { .. } | Self::Exception => false,
        }
    }
}
