//! Rates of a rule's messages per user, over all sessions and event loops.

use std::collections::HashMap;
use std::sync::Mutex;

use weir_access::RateBucket;
use weir_net::lock;

/// Users who may send within two seconds; the messages of others are refused.
const USERS_MAX: usize = 65_536;

/// Least time between two searches for users who have not sent for long, so that the messages of
/// users without a place cost little.
const SEARCH_INTERVAL_MS: u64 = 1_000;

/// Issuer and user.
type UserName = (Box<str>, Box<str>);

/// Rate limit of each user. Anonymous clients share one.
#[derive(Debug, Default)]
pub(super) struct UserRates {
    table: Mutex<UserTable>,
}

#[derive(Debug, Default)]
struct UserTable {
    buckets: HashMap<UserName, RateBucket>,
    /// Time of the next search.
    search_ms: u64,
}

impl UserRates {
    /// Takes one message of a user; returns `false` if the rate is exceeded.
    pub(super) fn take(&self, issuer: &str, user: &str, rate: f32, now_ms: u64) -> bool {
        let mut table = lock(&self.table);
        let UserTable { buckets, search_ms } = &mut *table;
        let name = (issuer.into(), user.into());
        if !buckets.contains_key(&name) && buckets.len() >= USERS_MAX {
            if now_ms >= *search_ms {
                *search_ms = now_ms + SEARCH_INTERVAL_MS;
                // A full bucket has no memory of its user.
                buckets.retain(|_, bucket| !bucket.is_full(rate, now_ms));
            }
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
        let len = || lock(&rates.table).buckets.len();
        // Most users have not sent for long, but a search costs too much for each message.
        assert_eq!((taken("c", SEARCH_INTERVAL_MS - 1), len()), (0, USERS_MAX));
        assert_eq!(taken("c", SEARCH_INTERVAL_MS), 10);
        // The other two had sent more than one message.
        assert_eq!(len(), 3);
    }
}
