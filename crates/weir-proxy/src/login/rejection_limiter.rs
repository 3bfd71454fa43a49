//! Limit of failed logins per client address.

use std::collections::HashMap;
use std::net::IpAddr;

/// Failures at once.
const BURST: u64 = 10;
/// Time after which one more failure is allowed, in milliseconds.
const INTERVAL_MS: u64 = 1_000;
/// Addresses whose failures are counted; those without recent failures are removed first.
const ADDRESSES_MAX: usize = 16_384;

/// Time at which the last failure of each address is forgotten, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct RejectionLimiter {
    until_ms: HashMap<IpAddr, u64>,
}

impl RejectionLimiter {
    /// Returns `true` if the address may try a login.
    pub(super) fn admits(&self, address: IpAddr, now_ms: u64) -> bool {
        let until_ms = self.until_ms.get(&address).copied().unwrap_or(0);
        until_ms.saturating_sub(now_ms) <= (BURST - 1) * INTERVAL_MS
    }

    /// Counts a failure.
    pub(super) fn count(&mut self, address: IpAddr, now_ms: u64) {
        if self.until_ms.len() >= ADDRESSES_MAX && !self.until_ms.contains_key(&address) {
            self.until_ms.retain(|_, until_ms| *until_ms > now_ms);
            if self.until_ms.len() >= ADDRESSES_MAX {
                return;
            }
        }
        let until_ms = self.until_ms.entry(address).or_default();
        // Several logins may fail at once.
        let max_ms = now_ms + BURST * INTERVAL_MS;
        *until_ms = ((*until_ms).max(now_ms) + INTERVAL_MS).min(max_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_allowed_and_then_one_per_second() {
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let mut limiter = RejectionLimiter::default();
        for _ in 0..BURST {
            assert!(limiter.admits(a, 5_000));
            limiter.count(a, 5_000);
        }
        assert!(!limiter.admits(a, 5_000) && limiter.admits(b, 5_000));
        limiter.count(a, 5_000);
        assert!(!limiter.admits(a, 5_999) && limiter.admits(a, 6_000));
        limiter.count(a, 6_000);
        assert!(!limiter.admits(a, 6_000) && limiter.admits(a, 7_000));
        assert!(limiter.admits(a, 100_000));
    }

    #[test]
    fn addresses_are_bounded() {
        let mut limiter = RejectionLimiter::default();
        for n in 0..2 * ADDRESSES_MAX as u32 {
            limiter.count(IpAddr::from(n.to_be_bytes()), 0);
        }
        assert_eq!(limiter.until_ms.len(), ADDRESSES_MAX);
        limiter.count(IpAddr::from([255; 4]), INTERVAL_MS);
        assert_eq!(limiter.until_ms.len(), 1);
    }
}
