//! Results of selectors.

/// Kind of value that a selector found; the text is in the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectorValue {
    Text,
    Null,
}
