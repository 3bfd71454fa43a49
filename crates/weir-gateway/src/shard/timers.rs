//! Tokens of a shard's timers. Other tokens are session keys, which are never this small or equal
//! to [`SESSION_TIMERS`].

pub(super) const DRAIN_OVER: u64 = 0;
pub(super) const DRAIN_STEP: u64 = 1;
pub(super) const END_POLLS: u64 = 2;
pub(super) const KEYS_TIMEOUT: u64 = 3;
pub(super) const ADAPTER_TIMER: u64 = 4;
pub(super) const LOGIN_TIMER: u64 = 5;
pub(super) const SESSION_TIMERS: u64 = u64::MAX;
