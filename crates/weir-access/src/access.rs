//! Identity and rights of one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use weir_identity::UserIdentity;
use weir_identity::rules::Grants;

use crate::usage::{SessionPlace, UsageShare};

/// Identity of a session with its rights, compiled when the session began.
#[derive(Debug)]
pub struct SessionAccess {
    /// Identity of the client.
    pub identity: Arc<UserIdentity>,
    /// `None` without item rules.
    pub grants: Option<Grants>,
    /// Index of the session rule that applies.
    pub rule: Option<u16>,
    /// Event loop time in milliseconds at which the session reaches its maximum age; `u64::MAX` if
    /// never.
    pub age_limit_ms: u64,
    /// Event loop time in milliseconds at which the session ends; `u64::MAX` if never.
    pub end_ms: u64,
    /// The session's parts of the usage of its user and of its tenant.
    pub shares: Box<[UsageShare]>,
    /// Claims `tls.*` of a client with a token, which a new token does not change.
    pub certificate: Option<Box<Value>>,
    /// Number of open sessions that were identified in the same way.
    pub count: Arc<AtomicU64>,
}

impl SessionAccess {
    /// Returns the identity.
    pub fn identity(&self) -> &Arc<UserIdentity> {
        &self.identity
    }

    /// Returns the event loop time in milliseconds at which the session ends.
    pub fn end_ms(&self) -> u64 {
        self.end_ms
    }

    /// Stores the location of the session, so that a newer session of the same user can end it.
    pub fn set_place(&mut self, place: SessionPlace) {
        self.shares
            .iter_mut()
            .for_each(|share| share.set_place(place));
    }

    /// Returns `true` if user and tenant may have one more subscription.
    pub fn may_subscribe(&self) -> bool {
        self.shares.iter().all(UsageShare::may_subscribe)
    }

    /// Counts a subscription of the session.
    pub fn add_subscription(&mut self) {
        self.shares
            .iter_mut()
            .for_each(UsageShare::add_subscription);
    }

    /// Counts the end of a subscription of the session.
    pub fn remove_subscription(&mut self) {
        self.shares
            .iter_mut()
            .for_each(UsageShare::remove_subscription);
    }

    /// Counts a request. Returns `false` if the user or the tenant exceeds its rate.
    pub fn take_request(&self, now_ms: u64) -> bool {
        self.shares.iter().all(|share| share.take_request(now_ms))
    }
}

impl Drop for SessionAccess {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the lower of two limits; `None` means no limit.
pub(crate) fn lower(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session needs less than 300 bytes: this, the identity (72 bytes and its texts), and the
    /// values of claims. Rules cause 24 of these bytes and the values.
    #[test]
    fn access_stays_small() {
        assert!(
            size_of::<SessionAccess>() <= 104,
            "{}",
            size_of::<SessionAccess>()
        );
        assert!(size_of::<Grants>() <= 24, "{}", size_of::<Grants>());
    }
}
