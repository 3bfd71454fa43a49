//! Requests to the adapter: sent ones without a reply, and queued ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::{HashMap, HashMapExt as _};
use weir_identity::ari::{AdapterMethod, AdapterPeer, AdapterRequest};

use super::options::WhileDown;

/// Maximum number of timed-out requests that are remembered to undo a late acceptance.
const LATE_MAX: usize = 10_000;
/// First character of the gateway's request IDs; those of adapters are numbers.
const ID_PREFIX: char = 'w';

/// A request.
#[derive(Debug)]
pub(super) struct Call<T> {
    pub(super) request: AdapterRequest,
    pub(super) method: AdapterMethod,
    pub(super) caller: Caller<T>,
    pub(super) while_down: WhileDown,
    pub(super) begin_ms: u64,
    pub(super) deadline_ms: u64,
    pub(super) sent: bool,
}

/// Receiver of an outcome.
#[derive(Debug)]
pub(super) enum Caller<T> {
    One(T),
    /// All receivers of one request about a user, each with its deadline in milliseconds.
    Users(Vec<(T, u64)>),
    /// No receiver: a close notification.
    Close,
}

/// Request or receiver whose deadline has passed.
#[derive(Debug)]
pub(super) enum Expired<T> {
    Waiter(AdapterMethod, T),
    Call(Box<Call<T>>),
}

/// Requests of one session that are sent one at a time.
#[derive(Debug)]
struct SessionQueue {
    /// ID of the request without a reply.
    in_flight: u64,
    queued: VecDeque<u64>,
}

/// Requests by ID.
#[derive(Debug)]
pub(super) struct Calls<T> {
    calls: BTreeMap<u64, Call<T>>,
    deadlines: BTreeSet<(u64, u64)>,
    queues: HashMap<String, SessionQueue>,
    /// Requests that have timed out and may still be accepted, and their order.
    late: HashMap<u64, AdapterRequest>,
    late_order: VecDeque<u64>,
    last_id: u64,
    closes: usize,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self {
            calls: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            queues: HashMap::new(),
            late: HashMap::new(),
            late_order: VecDeque::new(),
            last_id: 0,
            closes: 0,
        }
    }
}

impl<T> Call<T> {
    /// Returns the session that the request starts or ends, or that has the subscription which it
    /// starts or ends.
    pub(super) fn session(&self) -> Option<&str> {
        match &self.request {
            AdapterRequest::NotifyNewSession { session, .. } => Some(session),
            _ => queued_session(&self.request),
        }
    }

    /// Returns `true` if the request waits for a connection, and sending it twice is harmless.
    pub(super) fn may_repeat(&self) -> bool {
        let is_query = matches!(
            self.method,
            AdapterMethod::GetItems
                | AdapterMethod::GetSchema
                | AdapterMethod::GetItemData
                | AdapterMethod::GetUserItemData
        );
        self.while_down == WhileDown::Wait && (is_query || !self.sent)
    }
}

impl<T> Calls<T> {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of close notifications among the requests.
    pub(super) fn closes(&self) -> usize {
        self.closes
    }

    /// Adds a request. Returns the number of its ID.
    pub(super) fn insert(&mut self, call: Call<T>) -> u64 {
        self.last_id += 1;
        self.put_back(self.last_id, call);
        self.last_id
    }

    /// Adds a removed request again, under its ID.
    pub(super) fn put_back(&mut self, id: u64, call: Call<T>) {
        self.deadlines.insert((call.deadline_ms, id));
        self.closes += usize::from(matches!(call.caller, Caller::Close));
        if let Caller::Users(waiters) = &call.caller {
            let deadlines = waiters.iter().map(|(_, until_ms)| (*until_ms, id));
            self.deadlines.extend(deadlines);
        }
        self.calls.insert(id, call);
    }

    pub(super) fn get(&self, id: u64) -> Option<&Call<T>> {
        self.calls.get(&id)
    }

    /// Adds a receiver to a request about a user.
    pub(super) fn add_user(&mut self, id: u64, token: T, until_ms: u64) -> Result<(), T> {
        match self.calls.get_mut(&id).map(|call| &mut call.caller) {
            Some(Caller::Users(waiters)) => {
                waiters.push((token, until_ms));
                self.deadlines.insert((until_ms, id));
                Ok(())
            }
            _ => Err(token),
        }
    }

    /// Returns the method and the number of expected entries of a request that was sent.
    pub(super) fn sent(&self, id: u64) -> Option<(AdapterMethod, usize)> {
        let call = self.calls.get(&id).filter(|call| call.sent)?;
        Some((call.method, entries(&call.request)))
    }

    /// Returns `true` if a request has had this ID.
    pub(super) fn was_used(&self, id: u64) -> bool {
        (1..=self.last_id).contains(&id)
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Call<T>> {
        let call = self.calls.remove(&id)?;
        self.deadlines.remove(&(call.deadline_ms, id));
        if let Caller::Users(waiters) = &call.caller {
            for (_, until_ms) in waiters {
                self.deadlines.remove(&(*until_ms, id));
            }
        }
        self.closes -= usize::from(matches!(call.caller, Caller::Close));
        Some(call)
    }

    /// Removes and returns all requests, in the order of their IDs.
    pub(super) fn take_all(&mut self) -> BTreeMap<u64, Call<T>> {
        self.deadlines.clear();
        self.queues.clear();
        self.late.clear();
        self.late_order.clear();
        self.closes = 0;
        std::mem::take(&mut self.calls)
    }

    /// Sends a request, or queues it behind others of its session.
    pub(super) fn start(&mut self, id: u64, peer: &AdapterPeer, out: &mut String) {
        let Some(call) = self.calls.get_mut(&id).filter(|call| !call.sent) else {
            return;
        };
        if let Some(session) = queued_session(&call.request) {
            if let Some(queue) = self.queues.get_mut(session) {
                return queue.queued.push_back(id);
            }
            let queue = SessionQueue {
                in_flight: id,
                queued: VecDeque::new(),
            };
            self.queues.insert(session.to_owned(), queue);
        }
        send(id, call, peer, out);
    }

    /// Sends or queues the requests of an earlier connection. Must be called before anything else
    /// is sent on this connection.
    pub(super) fn start_all(&mut self, peer: &AdapterPeer, out: &mut String) {
        let unsent = self.calls.iter().filter(|(_, call)| !call.sent);
        let ids: Vec<u64> = unsent.map(|(id, _)| *id).collect();
        for id in ids {
            self.start(id, peer, out);
        }
    }

    /// Sends the next request of a session after one has ended.
    pub(super) fn advance(
        &mut self,
        ended: u64,
        session: Option<&str>,
        peer: &AdapterPeer,
        out: &mut String,
    ) {
        let Some(session) = session else { return };
        let queue = self.queues.get_mut(session);
        let Some(queue) = queue.filter(|queue| queue.in_flight == ended) else {
            return;
        };
        while let Some(id) = queue.queued.pop_front() {
            if let Some(call) = self.calls.get_mut(&id) {
                queue.in_flight = id;
                return send(id, call, peer, out);
            }
        }
        self.queues.remove(session);
    }

    /// Returns `true` if a session or subscription of this session is being accepted.
    pub(super) fn concerns(&self, session: &str) -> bool {
        let is_subscribing = self.queues.get(session).is_some_and(|queue| {
            let call = self.calls.get(&queue.in_flight);
            call.is_some_and(|call| call.method == AdapterMethod::NotifyNewTables)
        });
        is_subscribing
            || self.calls.values().any(|call| {
                call.method == AdapterMethod::NotifyNewSession && call.session() == Some(session)
            })
    }

    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Removes and returns requests and receivers whose deadline has passed.
    pub(super) fn expire(&mut self, now_ms: u64) -> Vec<(u64, Expired<T>)> {
        let mut expired = Vec::new();
        while let Some((at_ms, id)) = self.deadlines.first().copied() {
            if at_ms > now_ms {
                break;
            }
            self.deadlines.pop_first();
            let Some(call) = self.calls.get_mut(&id) else {
                continue;
            };
            if call.deadline_ms <= now_ms {
                let call = self.remove(id).map(Box::new);
                expired.extend(call.map(|call| (id, Expired::Call(call))));
            } else if let Caller::Users(waiters) = &mut call.caller {
                let method = call.method;
                let due = extract_due(waiters, now_ms);
                expired.extend(
                    due.into_iter()
                        .map(|one| (id, Expired::Waiter(method, one))),
                );
            }
        }
        expired
    }

    /// Stores a request that has timed out, if its acceptance would have to be undone.
    pub(super) fn keep_late(&mut self, id: u64, request: AdapterRequest) {
        let matters = matches!(
            request,
            AdapterRequest::NotifyNewSession { .. } | AdapterRequest::NotifyNewTables { .. }
        );
        if !matters {
            return;
        }
        self.late.insert(id, request);
        self.late_order.push_back(id);
        if self.late_order.len() > LATE_MAX {
            let oldest = self.late_order.pop_front();
            oldest.and_then(|id| self.late.remove(&id));
        }
    }

    pub(super) fn take_late(&mut self, id: u64) -> Option<AdapterRequest> {
        self.late.remove(&id)
    }
}

/// Returns the number of an ID.
pub(super) fn parse_id(id: &str) -> Option<u64> {
    let digits = id.strip_prefix(ID_PREFIX)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Returns the text of an ID.
pub(super) fn id_text(id: u64) -> String {
    format!("{ID_PREFIX}{id}")
}

fn send<T>(id: u64, call: &mut Call<T>, peer: &AdapterPeer, out: &mut String) {
    call.sent = true;
    call.request.encode(&id_text(id), peer, out);
}

/// Returns the session in whose queue requests of this kind are sent; `None` if they are sent at
/// once.
fn queued_session(request: &AdapterRequest) -> Option<&str> {
    match request {
        AdapterRequest::NotifyNewTables { session, .. }
        | AdapterRequest::NotifyTablesClose { session, .. }
        | AdapterRequest::NotifySessionClose { session } => Some(session),
        _ => None,
    }
}

/// Removes and returns the receivers whose deadline has passed.
fn extract_due<T>(waiters: &mut Vec<(T, u64)>, now_ms: u64) -> Vec<T> {
    let all = std::mem::take(waiters);
    let (due, left) = all
        .into_iter()
        .partition(|(_, until_ms)| *until_ms <= now_ms);
    *waiters = left;
    let due: Vec<(T, u64)> = due;
    due.into_iter().map(|(token, _)| token).collect()
}

/// Returns the number of entries that the reply to a request must have.
fn entries(request: &AdapterRequest) -> usize {
    match request {
        AdapterRequest::GetItemData { items } | AdapterRequest::GetUserItemData { items, .. } => {
            items.len()
        }
        _ => 0,
    }
}
