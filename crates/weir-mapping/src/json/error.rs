//! Errors in JSON texts.

use thiserror::Error;

/// An error in a JSON text with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{fault} at byte {at}")]
pub struct JsonError {
    /// Cause.
    pub fault: JsonFault,
    /// Byte position from 0.
    pub at: usize,
}

/// Cause of an error in a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// End of the text inside a value.
    #[error("unexpected end")]
    End,
    /// Not the beginning of a value.
    #[error("expected a value")]
    Value,
    /// Member of an object that does not begin with a quote.
    #[error("expected a member name in double quotes")]
    Name,
    /// Missing colon after a member name.
    #[error("expected ':' after the member name")]
    Colon,
    /// Missing comma or bracket after a member.
    #[error("expected ',' or '}}'")]
    MemberEnd,
    /// Missing comma or bracket after an element.
    #[error("expected ',' or ']'")]
    ElementEnd,
    /// Malformed number.
    #[error("malformed number")]
    Number,
    /// Number of more than 1000 characters.
    #[error("number longer than 1000 characters")]
    LongNumber,
    /// Undefined escape sequence.
    #[error("malformed escape sequence")]
    Escape,
    /// Line break, tabulator or other control character inside a string.
    #[error("control character in a string")]
    Control,
    /// Malformed UTF-8.
    #[error("malformed UTF-8")]
    Encoding,
    /// Too many nested objects and arrays.
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
