//! Counters of client messages.

use std::sync::atomic::{AtomicU64, Ordering};

/// Outcome of a message that a rule covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    /// The brokers have acknowledged it.
    Delivered,
    /// The brokers have rejected it.
    Refused,
    /// The brokers have not acknowledged it in time.
    Unconfirmed,
    /// It is longer than the rule allows.
    TooLong,
    /// Its session, its user or the gateway has reached a limit.
    OverLimit,
}

impl MessageOutcome {
    pub(crate) const ALL: [Self; 5] = [
        Self::Delivered,
        Self::Refused,
        Self::Unconfirmed,
        Self::TooLong,
        Self::OverLimit,
    ];

    /// Returns the value of the label `outcome`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Refused => "refused",
            Self::Unconfirmed => "unconfirmed",
            Self::TooLong => "too_long",
            Self::OverLimit => "over_limit",
        }
    }
}

/// Messages of one rule by outcome.
#[derive(Debug, Default)]
pub(crate) struct RuleCounters([AtomicU64; MessageOutcome::ALL.len()]);

impl RuleCounters {
    pub(crate) fn add(&self, outcome: MessageOutcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, outcome: MessageOutcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}
