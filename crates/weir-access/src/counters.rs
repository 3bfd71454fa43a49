//! Counters of identifications and decisions, for metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_identity::AuthMethod;

/// Outcome of an identification: source, outcome, reason.
pub(crate) type AuthLabels = (&'static str, &'static str, &'static str);

/// Reasons for which access ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessEnd {
    /// Its token ended.
    Expired,
    /// Its token was revoked.
    Revoked,
    /// A newer session of the user took its place.
    Replaced,
    /// Its user sent too many requests.
    Requests,
}

/// Counters of an authenticator.
#[derive(Debug, Default)]
pub struct AuthCounters {
    identified: Mutex<BTreeMap<AuthLabels, u64>>,
    /// Sessions by how their clients were identified, in the order of [`METHODS`].
    sessions: [Arc<AtomicU64>; METHODS.len()],
    /// Ended sessions, in the order of [`AccessEnd`].
    ended: [AtomicU64; END_REASONS.len()],
    refreshed: AtomicU64,
}

const METHODS: [AuthMethod; 4] = [
    AuthMethod::Jwt,
    AuthMethod::Certificate,
    AuthMethod::Adapter,
    AuthMethod::Anonymous,
];
const END_REASONS: [&str; 4] = ["expired", "revoked", "replaced", "requests"];

impl AuthCounters {
    pub fn identified(&self, labels: AuthLabels) {
        let counts = self.identified.lock();
        *counts
            .unwrap_or_else(PoisonError::into_inner)
            .entry(labels)
            .or_default() += 1;
    }

    /// Counts a session until the caller subtracts it from the counter that is returned.
    pub fn begin_session(&self, method: AuthMethod) -> Arc<AtomicU64> {
        let count = &self.sessions[METHODS.iter().position(|one| *one == method).unwrap_or(0)];
        count.fetch_add(1, Ordering::Relaxed);
        Arc::clone(count)
    }

    pub fn end_session(&self, reason: AccessEnd) {
        self.ended[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn refreshed(&self) {
        self.refreshed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the identifications.
    pub fn by_outcome(&self) -> Vec<(AuthLabels, u64)> {
        let counts = self
            .identified
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|(labels, count)| (*labels, *count))
            .collect()
    }

    /// Returns the sessions by how their clients were identified.
    pub fn sessions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = METHODS.iter().zip(&self.sessions);
        counts.map(|(method, count)| (method.as_str(), count.load(Ordering::Relaxed)))
    }

    /// Returns the ended sessions by reason.
    pub fn ended(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = END_REASONS.into_iter().zip(&self.ended);
        counts.map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
    }

    pub fn tokens_refreshed(&self) -> u64 {
        self.refreshed.load(Ordering::Relaxed)
    }
}
