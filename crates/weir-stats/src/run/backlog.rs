//! Names of the figures of cells whose consumers drain a backlog.

/// Deliveries of records that were due while the consumers paused.
pub const BACKLOG_DELIVERIES: &str = "backlog_deliveries";
/// Time in seconds from the end of the pause until the last of them arrived.
pub const BACKLOG_DRAIN_S: &str = "backlog_drain_s";
/// These deliveries per second.
pub const BACKLOG_DRAINED_PER_S: &str = "backlog_drained_per_s";
