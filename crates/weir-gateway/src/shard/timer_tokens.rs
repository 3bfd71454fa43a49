//! Timer tokens of a shard. Other tokens are session keys.

/// End of the drain. Session keys are never this small.
pub(super) const DRAIN_OVER: u64 = 0;
/// Next step of the drain.
pub(super) const DRAIN_STEP: u64 = 1;
/// End of the polls that have received data.
pub(super) const END_POLLS: u64 = 2;
/// Timers of lagging sessions; no session has this key.
pub(super) const SESSION_TIMERS: u64 = u64::MAX;
