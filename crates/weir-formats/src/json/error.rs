//! Errors in JSON texts.

use thiserror::Error;

/// An error in a JSON text with its byte position, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{fault} at byte {at}")]
pub struct JsonError {
    pub(super) fault: JsonFault,
    pub(super) at: usize,
}

/// Cause of an error in a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum JsonFault {
    #[error("unexpected end")]
    End,
    #[error("expected a value")]
    Value,
    #[error("expected a member name in double quotes")]
    Name,
    #[error("expected ':' after the member name")]
    Colon,
    #[error("expected ',' or '}}'")]
    MemberEnd,
    #[error("expected ',' or ']'")]
    ElementEnd,
    #[error("malformed number")]
    Number,
    #[error("number longer than 1000 characters")]
    LongNumber,
    #[error("malformed escape sequence")]
    Escape,
    #[error("control character in a string")]
    Control,
    #[error("malformed UTF-8")]
    Encoding,
    #[error("more than 1000 levels")]
    Depth,
    /// Text too long for 32-bit positions.
    #[error("text of more than 4 GiB")]
    Size,
}

impl JsonFault {
    pub(crate) fn at(self, at: usize) -> JsonError {
        JsonError { fault: self, at }
    }
}
