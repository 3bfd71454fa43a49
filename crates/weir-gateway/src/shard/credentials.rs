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

/// Maximum time for which a request waits for keys, in milliseconds.
pub(super) const WAIT_MS: u64 = 2_000;
/// Maximum number of waiting requests of each kind in a shard; further ones fail at once.
pub(super) const WAITING_MAX: usize = 500;

/// Maximum number of waiting requests that one iteration checks: a signature takes about 50 µs.
pub(super) const RETRIES_PER_ITERATION: usize = 25;

/// A verified client; `None` if clients are not identified.
pub(super) type Client = Option<Arc<IdentifiedClient>>;

/// Credentials of connections, and requests that wait for keys.
#[derive(Debug, Default)]
pub(super) struct ClientCredentials {
    pub(super) by_connection: HashMap<ConnId, Box<ConnectionCredentials>>,
    pub(super) waiting: HashMap<ConnId, WaitingCreate>,
    /// New tokens of sessions that wait for keys.
    pub(super) refreshes: HashMap<SessionKey, WaitingRefresh>,
    /// Waiting requests to be checked again.
    retries: VecDeque<WaitingRequest>,
    /// `true` if the keys have changed since [`Self::retries`] was filled.
    has_new_keys: bool,
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
    /// Replaces the credentials of a connection; `None` removes them.
    pub(super) fn insert(&mut self, conn: ConnId, new: Option<Box<ConnectionCredentials>>) {
        match new {
            Some(new) => self.by_connection.insert(conn, new),
            None => self.by_connection.remove(&conn),
        };
    }

    /// Removes the credentials of a connection.
    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Box<ConnectionCredentials>> {
        self.by_connection.remove(&conn)
    }

    /// Schedules another check of all waiting requests.
    pub(super) fn keys_changed(&mut self) {
        self.has_new_keys = true;
    }

    /// Returns the next waiting request to be checked again. A further change of keys takes effect
    /// after all requests have been returned once.
    pub(super) fn next_retry(&mut self) -> Option<WaitingRequest> {
        if self.retries.is_empty() && std::mem::take(&mut self.has_new_keys) {
            let creates = self.waiting.keys().copied().map(WaitingRequest::Create);
            let refreshes = self.refreshes.keys().copied().map(WaitingRequest::Refresh);
            self.retries.extend(creates.chain(refreshes));
        }
        self.retries.pop_front()
    }

    /// Returns `true` if waiting requests are to be checked again.
    pub(super) fn has_retries(&self) -> bool {
        !self.retries.is_empty() || self.has_new_keys
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
    /// `LS_msg_prog` of the message with the token, if the client requested its outcome.
    pub(super) prog: Option<u32>,
    pub(super) until_ms: u64,
}

impl fmt::Debug for WaitingRefresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitingRefresh({:?})", self.prog)
    }
}

/// Returns the current time for a check of credentials.
pub(super) fn access_time(wire: &impl Wire) -> AccessTime {
    AccessTime {
        unix_ms: wire.unix_ms(),
        loop_ms: wire.now_ms(),
    }
}
