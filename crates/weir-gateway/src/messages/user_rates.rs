//! Rates of a rule's messages per user, over all sessions and event loops.

use std::collections::HashMap;
use std::sync::Mutex;

use weir_access::RateBucket;
use weir_net::lock;

/// Users who may send within two seconds; the messages of others are refused.
const USERS_MAX: usize = 65_536;

/// Issuer and user.
type UserName = (Box<str>, Box<str>);

/// Rate limit of each user. Anonymous clients share one.
#[derive(Debug, Default)]
pub(super) struct UserRates {
    buckets: Mutex<HashMap<UserName, RateBucket>>,
}

impl UserRates {
    /// Takes one message of a user; returns `false` if the rate is exceeded.
    pub(super) fn take(&self, issuer: &str, user: &str, rate: f32, now_ms: u64) -> bool {
        let mut buckets = lock(&self.buckets);
        let name = (issuer.into(), user.into());
        if !buckets.contains_key(&name) && buckets.len() >= USERS_MAX {
            // A full bucket has no memory of its user.
            buckets.retain(|_, bucket| !bucket.is_full(rate, now_ms));
            if buckets.len() >= USERS_MAX {
                return false;
            }
        }
        let new = || RateBucket::full(rate, now_ms);
        buckets.entry(name).or_insert_with(new).take(rate, now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_separate_rates_and_bounded_memory() {
        let rates = UserRates::default();
        let taken = |user: &str, now_ms| {
            (0..50)
                .filter(|_| rates.take("i", user, 2.0, now_ms))
                .count()
        };
        assert_eq!((taken("a", 0), taken("a", 0), taken("b", 0)), (10, 0, 10));
        for number in 2..USERS_MAX {
            assert!(rates.take("i", &number.to_string(), 2.0, 0));
        }
        assert_eq!(taken("c", 0), 0, "no space");
        assert_eq!(taken("c", 60_000), 10);
        assert_eq!(lock(&rates.buckets).len(), 1);
    }
}
