//! Results of selectors.

/// What a selector found; text goes to the buffer of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectorValue {
    Text,
    Null,
}
