//! When to fetch an issuer's keys, and which keys are valid meanwhile. The caller fetches.
//!
//! ```text
//! idle -- due, or unknown key ID --> in flight -- fetched --> idle, due after the refresh interval
//!                                       |-------- failed ---> idle, due after a growing delay
//! ```

use std::sync::Arc;

use super::key_set::KeySet;

/// Bounds of `Cache-Control: max-age` (RFC 9111) of a key set, in milliseconds.
const MAX_AGE_MS: (u64, u64) = (60_000, 3_600_000);
/// Delay after the first failure while there are no keys, in milliseconds.
const FIRST_RETRY_MS: u64 = 1_000;

/// Intervals of fetching keys, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationLimits {
    /// Age at which keys are fetched again, unless the response names another one.
    pub refresh_ms: u64,
    /// Least distance of two fetches, except for the first keys.
    pub distance_ms: u64,
    /// Age at which keys are dropped if every fetch fails.
    pub stale_ms: u64,
}

impl Default for RotationLimits {
    fn default() -> Self {
        Self {
            refresh_ms: 600_000,
            distance_ms: 30_000,
            stale_ms: 24 * 3_600_000,
        }
    }
}

/// Keys of one issuer over time. All times are those of one monotonic clock, in milliseconds.
#[derive(Debug)]
pub struct KeyRotation {
    limits: RotationLimits,
    keys: Option<Arc<KeySet>>,
    fetched_ms: u64,
    due_ms: u64,
    started_ms: Option<u64>,
    is_in_flight: bool,
    failures: u32,
}

/// Differences between a key set and its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyChange {
    /// Keys that are new.
    pub added: usize,
    /// Keys that are gone. Tokens verified with them must be verified again.
    pub withdrawn: usize,
}

/// Prospects of a token whose key is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAvailability {
    /// A fetch is in flight or due; look the key up again after it.
    Pending,
    /// The last fetch failed: the client should try again later.
    Unavailable,
    /// The keys are recent and do not include it.
    Unknown,
}

impl KeyRotation {
    /// Starts without keys; the first fetch is due at once.
    pub fn new(limits: RotationLimits, now_ms: u64) -> Self {
        Self {
            limits,
            keys: None,
            fetched_ms: 0,
            due_ms: now_ms,
            started_ms: None,
            is_in_flight: false,
            failures: 0,
        }
    }

    /// Returns the time of the next fetch, or `None` while one is in flight.
    pub fn due_ms(&self) -> Option<u64> {
        (!self.is_in_flight).then_some(self.due_ms)
    }

    /// Returns `true` if the caller must fetch now, and report the result.
    pub fn start_fetch(&mut self, now_ms: u64) -> bool {
        if self.is_in_flight || now_ms < self.due_ms {
            return false;
        }
        self.is_in_flight = true;
        self.started_ms = Some(now_ms);
        true
    }

    /// Takes a fetched key set. Keys that it lacks are withdrawn at once.
    pub fn fetched(&mut self, keys: KeySet, max_age_ms: Option<u64>, now_ms: u64) -> KeyChange {
        let age_ms = max_age_ms.map_or(self.limits.refresh_ms, |age_ms| {
            age_ms.clamp(MAX_AGE_MS.0, MAX_AGE_MS.1)
        });
        self.is_in_flight = false;
        self.failures = 0;
        self.fetched_ms = now_ms;
        self.due_ms = now_ms.saturating_add(age_ms);
        let old = self.keys.replace(Arc::new(keys)).unwrap_or_default();
        let new = self.keys.as_deref().unwrap_or(&old);
        KeyChange {
            added: new.count_missing_in(&old),
            withdrawn: old.count_missing_in(new),
        }
    }

    /// Notes that a fetch failed or its document was rejected. The keys in use stay.
    pub fn failed(&mut self, now_ms: u64) {
        let growth = 1 << self.failures.min(16);
        let (first_ms, last_ms) = match self.keys {
            None => (FIRST_RETRY_MS, self.limits.distance_ms),
            Some(_) => (self.limits.distance_ms, self.limits.refresh_ms),
        };
        self.is_in_flight = false;
        self.failures = self.failures.saturating_add(1);
        let delay_ms = first_ms.saturating_mul(growth).min(last_ms.max(first_ms));
        self.due_ms = now_ms.saturating_add(delay_ms);
    }

    /// Returns the valid keys: `None` before the first fetch, and after an outage of `stale_ms`.
    pub fn keys(&self, now_ms: u64) -> Option<&Arc<KeySet>> {
        let is_valid = now_ms.saturating_sub(self.fetched_ms) <= self.limits.stale_ms;
        self.keys.as_ref().filter(|_| is_valid)
    }

    /// Returns the age of the keys.
    pub fn age_ms(&self, now_ms: u64) -> Option<u64> {
        let age_ms = now_ms.saturating_sub(self.fetched_ms);
        self.keys.as_ref().map(|_| age_ms)
    }

    /// Notes a token whose key is unknown. It brings the next fetch forward, but not closer than
    /// `distance_ms` to the last one.
    pub fn request_key(&mut self, now_ms: u64) -> KeyAvailability {
        if self.is_in_flight {
            return KeyAvailability::Pending;
        }
        if self.keys.is_some() {
            let last_ms = self.started_ms.unwrap_or(0);
            let allowed_ms = last_ms.saturating_add(self.limits.distance_ms).max(now_ms);
            self.due_ms = self.due_ms.min(allowed_ms);
        }
        match (self.due_ms <= now_ms, self.failures) {
            (true, _) => KeyAvailability::Pending,
            (false, 0) => KeyAvailability::Unknown,
            (false, _) => KeyAvailability::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;
    use crate::keys::VerificationKey;

    const MINUTE_MS: u64 = 60_000;

    fn key_set(secret: u8) -> KeySet {
        KeySet::of_one(VerificationKey::from_secret(&[secret; 32]).unwrap())
    }

    fn with_keys(now_ms: u64) -> KeyRotation {
        let mut rotation = KeyRotation::new(RotationLimits::default(), now_ms);
        assert!(rotation.start_fetch(now_ms));
        let change = rotation.fetched(key_set(1), None, now_ms);
        assert_eq!(
            change,
            KeyChange {
                added: 1,
                withdrawn: 0
            }
        );
        rotation
    }

    #[test]
    fn fetches_are_single_and_repeated() {
        let mut rotation = KeyRotation::new(RotationLimits::default(), 5);
        assert_eq!(rotation.due_ms(), Some(5));
        assert!(rotation.keys(5).is_none());
        assert!(rotation.start_fetch(5));
        assert!(!rotation.start_fetch(6), "one is in flight");
        assert_eq!(rotation.due_ms(), None);
        rotation.fetched(key_set(1), None, 10);
        assert_eq!(rotation.due_ms(), Some(10 + 10 * MINUTE_MS));
        assert!(!rotation.start_fetch(9 * MINUTE_MS));
        assert_eq!(rotation.age_ms(20), Some(10));
    }

    #[test]
    fn response_age_is_clamped() {
        for (max_age_ms, expected_ms) in [
            (0, MINUTE_MS),
            (5 * MINUTE_MS, 5 * MINUTE_MS),
            (u64::MAX, 60 * MINUTE_MS),
        ] {
            let mut rotation = with_keys(0);
            rotation.fetched(key_set(1), Some(max_age_ms), 1_000);
            assert_eq!(rotation.due_ms(), Some(1_000 + expected_ms));
        }
    }

    #[test]
    fn withdrawn_key_is_gone_at_once() {
        let mut rotation = with_keys(0);
        let old = Arc::clone(rotation.keys(0).unwrap());
        let change = rotation.fetched(key_set(2), None, 1);
        assert_eq!(
            change,
            KeyChange {
                added: 1,
                withdrawn: 1
            }
        );
        let signature = aws_lc_rs::hmac::sign(
            &aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &[1; 32]),
            b"m",
        );
        let verifies = |keys: &KeySet| {
            let key = keys.find(None, Algorithm::Hs256).unwrap();
            key.verify(Algorithm::Hs256, b"m", signature.as_ref())
        };
        assert!(verifies(&old));
        assert!(!verifies(rotation.keys(1).unwrap()));
        let same = rotation.fetched(key_set(2), None, 2);
        assert_eq!(
            same,
            KeyChange {
                added: 0,
                withdrawn: 0
            }
        );
    }

    #[test]
    fn old_keys_survive_outage_until_stale() {
        let mut rotation = with_keys(0);
        let stale_ms = RotationLimits::default().stale_ms;
        let mut fetches = 0;
        for now_ms in (0..=stale_ms).step_by(1_000) {
            assert!(rotation.keys(now_ms).is_some());
            if rotation.start_fetch(now_ms) {
                fetches += 1;
                rotation.failed(now_ms);
            }
        }
        assert!(rotation.keys(stale_ms + 1).is_none());
        assert!((140..150).contains(&fetches), "{fetches}");
    }

    #[test]
    fn first_keys_are_retried_soon() {
        let mut rotation = KeyRotation::new(RotationLimits::default(), 0);
        let mut starts = Vec::new();
        for now_ms in (0..100_000).step_by(500) {
            if rotation.start_fetch(now_ms) {
                starts.push(now_ms);
                rotation.failed(now_ms);
            }
            assert!(rotation.request_key(now_ms) != KeyAvailability::Unknown);
        }
        assert_eq!(
            starts,
            [0, 1_000, 3_000, 7_000, 15_000, 31_000, 61_000, 91_000]
        );
    }

    #[test]
    fn unknown_keys_cause_one_fetch_per_30_seconds() {
        let mut rotation = with_keys(0);
        let mut starts = Vec::new();
        for now_ms in 1..=120_000 {
            rotation.request_key(now_ms);
            if rotation.start_fetch(now_ms) {
                starts.push(now_ms);
                rotation.fetched(key_set(1), None, now_ms);
            }
        }
        assert_eq!(starts, [30_000, 60_000, 90_000, 120_000]);
    }

    #[test]
    fn unknown_key_waits_for_fetch_then_is_unknown_or_unavailable() {
        let mut rotation = with_keys(0);
        assert_eq!(
            rotation.request_key(1),
            KeyAvailability::Unknown,
            "just fetched"
        );
        assert_eq!(rotation.request_key(40_000), KeyAvailability::Pending);
        assert!(rotation.start_fetch(40_000));
        assert_eq!(rotation.request_key(40_001), KeyAvailability::Pending);
        rotation.failed(40_002);
        assert_eq!(rotation.request_key(40_003), KeyAvailability::Unavailable);
        assert!(rotation.start_fetch(70_002));
        rotation.fetched(key_set(1), None, 70_003);
        assert_eq!(rotation.request_key(70_004), KeyAvailability::Unknown);
    }
}
