//! Commands to running consumers.

/// Activity of the consumers of a [`run`](super::run) do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeanCommand {
    /// Read.
    #[default]
    Read,
    /// Fetch nothing. Connections, heartbeats and partitions stay; records of a fetch that is in
    /// progress are still delivered.
    Pause,
    /// Commit, leave the groups and end.
    Stop,
}
