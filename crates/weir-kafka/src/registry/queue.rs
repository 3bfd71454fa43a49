//! Order and times of lookups: one request in flight per id, back-off with jitter, expiry of
//! failures. Pure: the caller passes time and random numbers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::id::RegistryId;

const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Maximum attempts for an id that the registry does not know: its replicas may lag behind.
const UNKNOWN_ATTEMPTS: u32 = 5;
/// Maximum number of ids whose failures are remembered.
const FAILURES_MAX: usize = 10_000;

/// Limits of lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupLimits {
    /// Time after the first request for an id at which the lookup fails.
    pub wait: Duration,
    /// Time for which a failure is remembered; doubles with each failure, up to 20 times as long.
    pub retry_after: Duration,
}

/// Result of a request for one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupOutcome {
    Found,
    /// The registry does not know the id.
    Unknown,
    /// No response, or an error that another request may not have.
    Unavailable,
    /// Response that cannot be used; another one would be the same.
    Unusable,
}

/// Next action of a lookup after an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupAction {
    Done,
    Retry,
    GiveUp,
}

/// Next step of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextStep {
    Request(RegistryId),
    /// Nothing is due before this time.
    Wait(Option<Instant>),
}

/// Lookups that are due or in flight, and remembered failures.
#[derive(Debug)]
pub(super) struct LookupQueue {
    limits: LookupLimits,
    lookups: HashMap<RegistryId, Lookup>,
    failures: HashMap<RegistryId, Failure>,
}

#[derive(Debug)]
struct Lookup {
    deadline: Instant,
    /// Time of the next request; `None` while one is in flight.
    due: Option<Instant>,
    attempts: u32,
}

#[derive(Debug)]
struct Failure {
    count: u32,
    /// Time at which the failure expires; `None` after that.
    until: Option<Instant>,
}

impl LookupQueue {
    pub(super) fn new(limits: LookupLimits) -> Self {
        Self {
            limits,
            lookups: HashMap::new(),
            failures: HashMap::new(),
        }
    }

    /// Adds a lookup, unless there is one or it has failed: the caller may not know of the failure
    /// yet. Returns `true` if it was added.
    pub(super) fn add(&mut self, id: &RegistryId, now: Instant) -> bool {
        let failure = self.failures.get(id);
        let has_failed = failure.is_some_and(|failure| failure.until.is_some());
        if has_failed || self.lookups.contains_key(id) {
            return false;
        }
        // An id that failed before is requested once, so that records do not wait that long again.
        let deadline = match self.failures.contains_key(id) {
            true => now,
            false => now + self.limits.wait,
        };
        let lookup = Lookup {
            deadline,
            due: Some(now),
            attempts: 0,
        };
        self.lookups.insert(id.clone(), lookup);
        true
    }

    /// Returns the lookup that has been due for the longest time, and marks it as in flight; or the
    /// time to wait for.
    pub(super) fn next(&mut self, now: Instant) -> NextStep {
        let due = self.lookups.iter_mut();
        let due = due.filter_map(|(id, lookup)| Some((lookup.due?, id, lookup)));
        let expiries = self.failures.values().filter_map(|failure| failure.until);
        let expiry = expiries.min();
        match due.min_by_key(|(due, ..)| *due) {
            Some((due, id, lookup)) if due <= now => {
                lookup.due = None;
                lookup.attempts += 1;
                NextStep::Request(id.clone())
            }
            next => NextStep::Wait(next.map(|(due, ..)| due).into_iter().chain(expiry).min()),
        }
    }

    /// Records the outcome of a request and returns the next action. `random` is any number.
    pub(super) fn finish(
        &mut self,
        id: &RegistryId,
        outcome: LookupOutcome,
        now: Instant,
        random: u64,
    ) -> LookupAction {
        let Some(lookup) = self.lookups.get_mut(id) else {
            return LookupAction::Done;
        };
        if outcome == LookupOutcome::Found {
            self.lookups.remove(id);
            self.failures.remove(id);
            return LookupAction::Done;
        }
        let is_last = match outcome {
            LookupOutcome::Unknown => lookup.attempts >= UNKNOWN_ATTEMPTS,
            LookupOutcome::Unusable => true,
            LookupOutcome::Found | LookupOutcome::Unavailable => false,
        };
        let due = now + backoff(lookup.attempts, random);
        if !is_last && due < lookup.deadline {
            lookup.due = Some(due);
            return LookupAction::Retry;
        }
        self.lookups.remove(id);
        self.note_failure(id, now);
        LookupAction::GiveUp
    }

    fn note_failure(&mut self, id: &RegistryId, now: Instant) {
        if self.failures.len() >= FAILURES_MAX && !self.failures.contains_key(id) {
            // Without an expired failure, the next lookup of its id only waits the full time again.
            self.failures.retain(|_, failure| failure.until.is_some());
        }
        let failure = self.failures.entry(id.clone()).or_insert(Failure {
            count: 0,
            until: None,
        });
        let factor = 1_u32.checked_shl(failure.count).unwrap_or(u32::MAX).min(20);
        failure.count += 1;
        failure.until = Some(now + self.limits.retry_after * factor);
    }

    /// Returns the ids whose failures have expired since the last call.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<RegistryId> {
        let mut expired = Vec::new();
        for (id, failure) in &mut self.failures {
            if failure.until.take_if(|until| *until <= now).is_some() {
                expired.push(id.clone());
            }
        }
        expired
    }
}

/// Returns a random delay from half to all of a time that doubles with each attempt.
fn backoff(attempts: u32, random: u64) -> Duration {
    let factor = 1_u32
        .checked_shl(attempts.saturating_sub(1))
        .unwrap_or(u32::MAX);
    let longest = BACKOFF_MIN.saturating_mul(factor).min(BACKOFF_MAX);
    let half = longest / 2;
    half + half.mul_f64((random % 1000) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LookupLimits = LookupLimits {
        wait: Duration::from_secs(60),
        retry_after: Duration::from_secs(30),
    };

    fn id(number: i32) -> RegistryId {
        RegistryId::Number(number)
    }

    /// Runs one lookup with the same outcome until it ends. Returns the attempts and the time.
    fn run(queue: &mut LookupQueue, outcome: LookupOutcome, start: Instant) -> (u32, Instant) {
        assert!(queue.add(&id(1), start));
        let (mut now, mut attempts) = (start, 0);
        loop {
            match queue.next(now) {
                NextStep::Request(_) => attempts += 1,
                NextStep::Wait(Some(until)) => {
                    assert!(until > now);
                    now = until;
                    continue;
                }
                NextStep::Wait(None) => panic!("lost lookup"),
            }
            match queue.finish(&id(1), outcome, now, attempts.into()) {
                LookupAction::Retry => {}
                LookupAction::Done | LookupAction::GiveUp => return (attempts, now),
            }
        }
    }

    #[test]
    fn one_request_is_in_flight_per_id() {
        let (mut queue, now) = (LookupQueue::new(LIMITS), Instant::now());
        assert!(queue.add(&id(1), now));
        assert!(!queue.add(&id(1), now));
        assert_eq!(queue.next(now), NextStep::Request(id(1)));
        assert!(!queue.add(&id(1), now));
        assert_eq!(queue.next(now), NextStep::Wait(None));
        assert!(queue.add(&id(2), now));
        assert_eq!(queue.next(now), NextStep::Request(id(2)));
        assert_eq!(
            queue.finish(&id(1), LookupOutcome::Found, now, 0),
            LookupAction::Done
        );
        assert!(queue.add(&id(1), now));
    }

    #[test]
    fn unavailable_registry_is_requested_until_wait_ends() {
        let (mut queue, start) = (LookupQueue::new(LIMITS), Instant::now());
        let (attempts, end) = run(&mut queue, LookupOutcome::Unavailable, start);
        let waited = end - start;
        assert!(
            waited > LIMITS.wait - BACKOFF_MAX && waited < LIMITS.wait,
            "{waited:?}"
        );
        // At least every 5 s, and not more often than the back-off allows.
        assert!((12..40).contains(&attempts), "{attempts}");
    }

    #[test]
    fn unknown_id_is_requested_few_times() {
        let (mut queue, start) = (LookupQueue::new(LIMITS), Instant::now());
        let (attempts, end) = run(&mut queue, LookupOutcome::Unknown, start);
        assert_eq!(attempts, UNKNOWN_ATTEMPTS);
        assert!(end - start < Duration::from_secs(4));
        let (attempts, _) = run(
            &mut LookupQueue::new(LIMITS),
            LookupOutcome::Unusable,
            start,
        );
        assert_eq!(attempts, 1);
    }

    #[test]
    fn expired_failures_are_requested_once() {
        let (mut queue, start) = (LookupQueue::new(LIMITS), Instant::now());
        let (_, mut end) = run(&mut queue, LookupOutcome::Unknown, start);
        for factor in [1, 2, 4, 8, 16, 20, 20] {
            let expiry = end + LIMITS.retry_after * factor;
            assert_eq!(queue.next(end), NextStep::Wait(Some(expiry)));
            // A caller that does not know of the failure yet requests the id again.
            assert!(!queue.add(&id(1), end));
            assert!(
                queue
                    .take_expired(expiry - Duration::from_millis(1))
                    .is_empty()
            );
            assert_eq!(queue.take_expired(expiry), [id(1)]);
            assert!(queue.take_expired(expiry).is_empty());
            let (attempts, again) = run(&mut queue, LookupOutcome::Unavailable, expiry);
            assert_eq!((attempts, again), (1, expiry));
            end = again;
        }
        let expiry = end + LIMITS.retry_after * 20;
        assert_eq!(queue.take_expired(expiry), [id(1)]);
        run(&mut queue, LookupOutcome::Found, expiry);
        assert!(queue.failures.is_empty() && queue.lookups.is_empty());
    }

    #[test]
    fn backoff_grows_and_has_jitter() {
        assert_eq!(backoff(1, 0), BACKOFF_MIN / 2);
        assert!(backoff(1, 999) < BACKOFF_MIN);
        assert_eq!(backoff(2, 0), BACKOFF_MIN);
        assert_eq!(backoff(40, 0), BACKOFF_MAX / 2);
        assert!(backoff(u32::MAX, 999) < BACKOFF_MAX);
    }
}
