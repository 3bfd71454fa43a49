//! Resources that the sessions of a user or tenant share, if a session rule limits them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use weir_identity::UserIdentity;
use weir_identity::config::SharedLimits;

use crate::rate_bucket::RateBucket;
use weir_net::lock;

/// Shard of a session, and its key there.
pub(crate) type SessionPlace = (u16, u64);

/// Usage of all users and tenants whose sessions share limits.
#[derive(Debug, Default)]
pub(crate) struct UsageTable {
    by_owner: Mutex<HashMap<UsageOwner, Arc<Usage>>>,
}

/// User or tenant. Equal names of two issuers are different owners.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct UsageOwner {
    is_tenant: bool,
    issuer: Box<str>,
    name: Box<str>,
}

#[derive(Debug)]
struct Usage {
    owner: UsageOwner,
    counts: Mutex<UsageCounts>,
}

#[derive(Debug, Default)]
struct UsageCounts {
    sessions: u32,
    subscriptions: u32,
    requests: Option<RateBucket>,
    /// Places of the sessions that a new session may end, the oldest first.
    places: VecDeque<SessionPlace>,
}

/// The limit of sessions is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManySessions;

/// A session's part of the usage of its user or tenant; released on drop.
#[derive(Debug)]
pub struct UsageShare {
    table: Arc<UsageTable>,
    usage: Arc<Usage>,
    limits: SharedLimits,
    subscriptions: u32,
    /// `true` if a newer session may end this one.
    is_replaceable: bool,
    place: Option<SessionPlace>,
}

impl UsageOwner {
    /// Returns the user of an identity; `None` for anonymous clients, which share no limits.
    pub(crate) fn user(identity: &UserIdentity) -> Option<Self> {
        let name = identity.user();
        (!name.is_empty()).then(|| Self::new(false, identity, name))
    }

    /// Returns the tenant of an identity.
    pub(crate) fn tenant(identity: &UserIdentity) -> Option<Self> {
        Some(Self::new(true, identity, identity.tenant()?))
    }

    fn new(is_tenant: bool, identity: &UserIdentity, name: &str) -> Self {
        Self {
            is_tenant,
            issuer: identity.issuer().into(),
            name: name.into(),
        }
    }
}

impl UsageTable {
    /// Counts a new session. At the limit, and with `end_oldest`, also returns the place of the
    /// oldest session, which the caller must end.
    pub(crate) fn begin(
        self: &Arc<Self>,
        owner: UsageOwner,
        limits: SharedLimits,
        end_oldest: bool,
    ) -> Result<(UsageShare, Option<SessionPlace>), TooManySessions> {
        let mut owners = lock(&self.by_owner);
        let usage = Arc::clone(owners.entry(owner).or_insert_with_key(|owner| {
            let (owner, counts) = (owner.clone(), Mutex::default());
            Arc::new(Usage { owner, counts })
        }));
        let mut counts = lock(&usage.counts);
        let is_full = limits
            .sessions_max
            .is_some_and(|most| counts.sessions >= most);
        let replaces = is_full && end_oldest;
        let oldest = replaces.then(|| counts.places.pop_front()).flatten();
        if is_full && oldest.is_none() {
            if counts.sessions == 0 {
                owners.remove(&usage.owner);
            }
            return Err(TooManySessions);
        }
        counts.sessions += 1;
        drop(counts);
        let share = UsageShare {
            table: Arc::clone(self),
            usage,
            limits,
            subscriptions: 0,
            is_replaceable: end_oldest,
            place: None,
        };
        Ok((share, oldest))
    }
}

impl UsageShare {
    /// Stores the location of the session, if a newer one may end it.
    pub fn set_place(&mut self, place: SessionPlace) {
        if !self.is_replaceable {
            return;
        }
        self.place = Some(place);
        lock(&self.usage.counts).places.push_back(place);
    }

    /// Returns `true` if one more subscription is allowed.
    pub fn may_subscribe(&self) -> bool {
        let most = self.limits.subscriptions_max;
        most.is_none_or(|most| lock(&self.usage.counts).subscriptions < most)
    }

    /// Counts a new subscription.
    pub fn add_subscription(&mut self) {
        self.subscriptions += 1;
        lock(&self.usage.counts).subscriptions += 1;
    }

    /// Counts the end of a subscription.
    pub fn remove_subscription(&mut self) {
        self.subscriptions -= 1;
        lock(&self.usage.counts).subscriptions -= 1;
    }

    /// Counts a request. Returns `false` above the limit.
    pub fn take_request(&self, now_ms: u64) -> bool {
        let Some(rate) = self.limits.requests_per_second else {
            return true;
        };
        let (rate, mut counts) = (rate as f32, lock(&self.usage.counts));
        let bucket = &mut counts.requests;
        bucket
            .get_or_insert_with(|| RateBucket::full(rate, now_ms))
            .take(rate, now_ms)
    }

    /// Returns the part of the bandwidth that the session has now, in kbit/s.
    pub fn bandwidth_kbps(&self) -> Option<f64> {
        let all = self.limits.bandwidth_max_kbps?;
        Some(all / f64::from(lock(&self.usage.counts).sessions.max(1)))
    }
}

impl Drop for UsageShare {
    fn drop(&mut self) {
        let mut owners = lock(&self.table.by_owner);
        let mut counts = lock(&self.usage.counts);
        counts.sessions -= 1;
        counts.subscriptions -= self.subscriptions;
        if let Some(place) = self.place {
            counts.places.retain(|other| *other != place);
        }
        if counts.sessions == 0 {
            owners.remove(&self.usage.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> UsageOwner {
        UsageOwner {
            is_tenant: false,
            issuer: "i".into(),
            name: name.into(),
        }
    }

    const LIMITS: SharedLimits = SharedLimits {
        sessions_max: Some(2),
        subscriptions_max: Some(3),
        requests_per_second: Some(1.0),
        bandwidth_max_kbps: Some(100.0),
    };

    #[test]
    fn sessions_of_one_owner_share_limits() {
        let table = Arc::new(UsageTable::default());
        let begin = |name| {
            table
                .begin(owner(name), LIMITS, false)
                .map(|(share, _)| share)
        };
        let (mut one, mut two) = (begin("anna").unwrap(), begin("anna").unwrap());
        assert_eq!(begin("anna").err(), Some(TooManySessions));
        let other = begin("bob").unwrap();
        assert_eq!(
            (one.bandwidth_kbps(), other.bandwidth_kbps()),
            (Some(50.0), Some(100.0))
        );
        one.add_subscription();
        one.add_subscription();
        two.add_subscription();
        assert!(!two.may_subscribe() && other.may_subscribe());
        two.remove_subscription();
        assert!(two.may_subscribe());
        let taken = (0..20).filter(|_| one.take_request(0)).count();
        assert_eq!((taken, two.take_request(0)), (10, false));
        assert!(other.take_request(0));
        drop(one);
        assert_eq!(lock(&two.usage.counts).subscriptions, 0);
        assert!(begin("anna").is_ok());
        drop((two, other));
        assert!(lock(&table.by_owner).is_empty());
    }

    #[test]
    fn new_session_replaces_oldest() {
        let table = Arc::new(UsageTable::default());
        let begin = || table.begin(owner("anna"), LIMITS, true);
        let mut shares = Vec::new();
        for place in 1..=2 {
            let (mut share, oldest) = begin().unwrap();
            assert_eq!(oldest, None);
            share.set_place((0, place));
            shares.push(share);
        }
        let (third, oldest) = begin().unwrap();
        assert_eq!(oldest, Some((0, 1)));
        // The first one is ending; the third one has no place yet.
        drop(shares.remove(0));
        let (_fourth, oldest) = begin().unwrap();
        assert_eq!(oldest, Some((0, 2)));
        assert_eq!(begin().err(), Some(TooManySessions));
        drop(third);
    }
}
