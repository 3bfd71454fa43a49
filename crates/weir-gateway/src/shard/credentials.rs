//! Credentials of connections, and requests that wait for the keys of their tokens.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use weir_fanout::SessionKey;
use weir_identity::token::IdentifiedClient;
use weir_net::server::ConnId;
use weir_tlcp::request::CreateSession;

use super::responses::RequestTransport;
use super::wire::Wire;
use weir_access::{AccessTime, ConnectionCredentials};

/// Longest time for which a request waits for keys, in milliseconds.
pub(super) const WAIT_MS: u64 = 2_000;
/// Requests of one shard that wait; further ones are to be repeated later.
pub(super) const WAITING_MAX: usize = 500;

/// Waiting requests that one iteration judges: a signature takes about 50 µs.
pub(super) const RETRIES_PER_ITERATION: usize = 25;

/// A verified client; `None` if clients are not identified.
pub(super) type Client = Option<Arc<IdentifiedClient>>;

/// Credentials of connections, and requests that wait for keys.
#[derive(Debug, Default)]
pub(super) struct ClientCredentials {
    pub(super) by_connection: HashMap<ConnId, Box<ConnectionCredentials>>,
    pub(super) waiting: HashMap<ConnId, WaitingCreate>,
    /// By session.
    pub(super) refreshes: HashMap<SessionKey, WaitingRefresh>,
    /// Waiting requests to be judged again.
    retries: VecDeque<WaitingRequest>,
    /// The keys have changed since [`Self::retries`] was filled.
    has_news: bool,
}

/// A waiting request.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaitingRequest {
    Create(ConnId),
    Refresh(SessionKey),
}

/// A `create_session` request whose token may be valid with the next keys.
#[derive(Debug)]
pub(super) struct WaitingCreate {
    pub(super) create: CreateSession<'static>,
    pub(super) transport: RequestTransport,
    /// Response lines before that of the request.
    pub(super) lines: Vec<u8>,
    pub(super) until_ms: u64,
}

impl ClientCredentials {
    /// Stores the credentials of a connection until [`Self::remove`], instead of earlier ones.
    pub(super) fn insert(&mut self, conn: ConnId, found: Option<Box<ConnectionCredentials>>) {
        match found {
            Some(found) => self.by_connection.insert(conn, found),
            None => self.by_connection.remove(&conn),
        };
    }

    /// Removes the credentials of a connection.
    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Box<ConnectionCredentials>> {
        self.by_connection.remove(&conn)
    }

    /// Has all waiting requests judged again.
    pub(super) fn keys_changed(&mut self) {
        self.has_news = true;
    }

    /// Returns the next waiting request to be judged again. Each one has its turn before another
    /// change of keys applies.
    pub(super) fn next_retry(&mut self) -> Option<WaitingRequest> {
        if self.retries.is_empty() && std::mem::take(&mut self.has_news) {
            let creates = self.waiting.keys().copied().map(WaitingRequest::Create);
            let refreshes = self.refreshes.keys().copied().map(WaitingRequest::Refresh);
            self.retries.extend(creates.chain(refreshes));
        }
        self.retries.pop_front()
    }

    /// Returns `true` if waiting requests are to be judged again.
    pub(super) fn has_retries(&self) -> bool {
        !self.retries.is_empty() || self.has_news
    }

    /// Removes everything about a closed connection.
    pub(super) fn forget(&mut self, conn: ConnId) {
        if !self.by_connection.is_empty() {
            self.by_connection.remove(&conn);
        }
        if !self.waiting.is_empty() {
            self.waiting.remove(&conn);
        }
    }
}

/// A new token that may be valid with the next keys.
pub(super) struct WaitingRefresh {
    pub(super) token: String,
    /// Number of the message, if its outcome is to be reported.
    pub(super) prog: Option<u32>,
    pub(super) until_ms: u64,
}

impl fmt::Debug for WaitingRefresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitingRefresh({:?})", self.prog)
    }
}

/// Returns the time at which a request is judged.
pub(super) fn access_time(wire: &impl Wire) -> AccessTime {
    AccessTime {
        unix_ms: wire.unix_ms(),
        loop_ms: wire.now_ms(),
    }
}
