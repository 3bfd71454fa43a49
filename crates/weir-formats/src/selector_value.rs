//! Results of selectors.

/// Kind of value that a selector found; the text is in the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorValue {
    /// A value with a text.
    Text,
    /// Null, without a text.
    Null,
}
