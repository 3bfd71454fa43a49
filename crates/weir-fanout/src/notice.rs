//! Notices about an item without values.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemNotice {
    Clear,
    EndOfSnapshot,
    /// This number of updates was lost here.
    Lost(u64),
}
