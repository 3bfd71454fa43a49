//! Tokens of the timers of a shard. All others are sessions.

/// Timer tokens; those of sessions are never that small.
pub(super) const DRAIN_OVER: u64 = 0;
pub(super) const DRAIN_STEP: u64 = 1;
/// Polls that have got something are to end.
pub(super) const END_POLLS: u64 = 2;
/// Timer token of the alarms; no session has this key.
pub(super) const SESSION_TIMERS: u64 = u64::MAX;
