//! Requests about users: a client that tries again gets the reply to its first attempt.

use foldhash::HashMap;
use weir_identity::ari::{AdapterPeer, AdapterRequest, AriVersion};

use super::calls::{Call, Caller, Calls};
use crate::outcome::{AdapterFailure, AdapterOutcome};

/// Time in milliseconds within which the same credentials share a request.
pub(super) const JOIN_MS: u64 = 10_000;
/// Most replies that wait for a client to try again.
const DONE_MAX: usize = 10_000;
/// Header that is different for each attempt.
const REQUEST_ID: &str = "REQUEST_ID";

/// Result of looking for an earlier attempt.
#[derive(Debug)]
pub(super) enum Joined<T> {
    /// There is one; its reply completes both.
    Waits,
    /// There is one whose reply came too late.
    Done(T, AdapterOutcome),
    No(T),
}

/// Earlier attempts by credentials.
#[derive(Debug, Default)]
pub(super) struct Users {
    pending: HashMap<String, u64>,
    /// Replies that came when no client waited, with the time at which they are forgotten.
    done: HashMap<String, (AdapterOutcome, u64)>,
    next_expiry_ms: Option<u64>,
}

impl Users {
    /// Adds a receiver to an earlier attempt with the same credentials and headers.
    pub(super) fn join<T>(
        &mut self,
        request: &AdapterRequest,
        calls: &mut Calls<T>,
        token: T,
        until_ms: u64,
        now_ms: u64,
    ) -> Joined<T> {
        let Some(key) = key(request) else {
            return Joined::No(token);
        };
        if let Some((outcome, until_ms)) = self.done.remove(&key) {
            if now_ms < until_ms {
                return Joined::Done(token, outcome);
            }
        }
        let Some(id) = self.pending.get(&key) else {
            return Joined::No(token);
        };
        match calls.add_user(*id, token, until_ms) {
            Ok(()) => Joined::Waits,
            Err(token) => Joined::No(token),
        }
    }

    /// Notes a new request, if it is about a user.
    pub(super) fn begin<T>(&mut self, calls: &Calls<T>, id: u64) {
        if let Some(key) = calls.get(id).and_then(|call| key(&call.request)) {
            self.pending.insert(key, id);
        }
    }

    /// Removes a request that is complete. A reply that comes when no client waits is stored.
    pub(super) fn finish<T>(&mut self, call: &Call<T>, outcome: &AdapterOutcome, now_ms: u64) {
        let Caller::Users(waiters) = &call.caller else {
            return;
        };
        let Some(key) = key(&call.request) else {
            return;
        };
        self.pending.remove(&key);
        let is_reply = matches!(outcome, Ok(_) | Err(AdapterFailure::Exception(_)));
        if waiters.is_empty() && is_reply && self.done.len() < DONE_MAX {
            let until_ms = call.begin_ms + JOIN_MS;
            if now_ms < until_ms {
                self.done.insert(key, (outcome.clone(), until_ms));
                let next_ms = self.next_expiry_ms.unwrap_or(until_ms);
                self.next_expiry_ms = Some(next_ms.min(until_ms));
            }
        }
    }

    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.next_expiry_ms
    }

    pub(super) fn expire(&mut self, now_ms: u64) {
        if self.next_expiry_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.done.retain(|_, (_, until_ms)| *until_ms > now_ms);
            self.next_expiry_ms = self.done.values().map(|(_, until_ms)| *until_ms).min();
        }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Returns the credentials and headers of a request about a user, without its number.
pub(super) fn key(request: &AdapterRequest) -> Option<String> {
    let mut request = request.clone();
    match &mut request {
        AdapterRequest::NotifyUser { headers, .. }
        | AdapterRequest::NotifyUserWithPrincipal { headers, .. } => {
            headers.retain(|header| header.name != REQUEST_ID);
        }
        _ => return None,
    }
    let peer = AdapterPeer {
        version: AriVersion::LATEST,
        is_node: false,
        wants_close: false,
    };
    let mut key = String::new();
    request.encode("", &peer, &mut key);
    Some(key)
}
