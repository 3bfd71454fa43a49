//! What can be wrong with a JSON text.

use thiserror::Error;

/// A mistake in a JSON text and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{fault} at byte {at}")]
pub struct JsonError {
    /// What is wrong.
    pub fault: JsonFault,
    /// Position from 0.
    pub at: usize,
}

/// What is wrong with a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// The text ends inside a value.
    #[error("unexpected end")]
    End,
    /// Something that begins no value.
    #[error("expected a value")]
    Value,
    /// An object's member does not begin with a quote.
    #[error("expected a member name in double quotes")]
    Name,
    /// No colon after a member name.
    #[error("expected ':' after the member name")]
    Colon,
    /// Neither a comma nor the end after a member.
    #[error("expected ',' or '}}'")]
    MemberEnd,
    /// Neither a comma nor the end after an element.
    #[error("expected ',' or ']'")]
    ElementEnd,
    /// Not a number as JSON writes it.
    #[error("malformed number")]
    Number,
    /// A number of more than a thousand characters.
    #[error("number longer than 1000 characters")]
    LongNumber,
    /// An escape sequence that JSON does not know.
    #[error("malformed escape sequence")]
    Escape,
    /// A line break, tabulator or other control character inside a string.
    #[error("control character in a string")]
    Control,
    /// Bytes that are not UTF-8.
    #[error("malformed UTF-8")]
    Encoding,
    /// Objects and arrays inside each other.
    #[error("more than 1000 levels")]
    Depth,
    /// Positions are kept in 32 bits.
    #[error("text of more than 4 GiB")]
    Size,
}

impl JsonFault {
    pub(crate) fn at(self, at: usize) -> JsonError {
        JsonError { fault: self, at }
    }
}
