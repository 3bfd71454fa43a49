//! Reusable memory for the names and texts of members.

#[derive(Debug, Clone, Default)]
pub(super) struct MemberBuffers {
    pub(super) text: String,
    /// Name of an element, or the texts of a list.
    pub(super) other: String,
}
