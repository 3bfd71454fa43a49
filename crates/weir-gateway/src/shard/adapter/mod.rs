//! The remote adapter's part in the sessions of a shard: requests that wait for its decisions.
//!
//! Nothing here exists without an adapter. Rules decide first; the adapter can only restrict.

mod create;
mod forced;
mod limits;
mod messages;
mod subscribe;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _};
use weir_adapter::decision::ItemCache;
use weir_adapter::{
    AdapterFailure, ClientHead, MessageLanes, OpenSession, SessionTable, WhileDown,
};
use weir_fanout::SessionKey;
use weir_identity::UserIdentity;
use weir_identity::ari::AdapterRequest;
use weir_net::http1::HttpRequest;
use weir_net::server::ConnId;
use weir_net::tls::CertificateNames;
use weir_tlcp::server::SequenceId;

pub(super) use self::messages::AdapterMessage;

use self::create::PendingCreate;
use self::subscribe::PendingAdd;
use super::clients::Clients;
use super::session::AdapterSet;
use super::state::Shard;
use super::wire::Wire;
use crate::adapter::{AdapterAccess, AdapterCall, AdapterEvent, AdapterToken};

/// What a shard knows about the adapter's decisions.
pub(super) struct ShardAdapter {
    shard: u16,
    access: AdapterAccess,
    sessions: SessionTable,
    cache: ItemCache,
    /// Heads of the requests that opened WebSockets, or that create sessions over HTTP.
    heads: HashMap<ConnId, Box<ClientHead>>,
    /// Sessions that wait for a decision, by number; at most one per connection.
    creates: HashMap<u64, PendingCreate>,
    creates_by_connection: HashMap<ConnId, u64>,
    /// Subscriptions that wait for a decision, by number, and their numbers by session.
    adds: HashMap<u64, PendingAdd>,
    adds_by_session: BTreeMap<(u64, u32), u64>,
    lanes: MessageLanes<(SessionKey, SequenceId), AdapterMessage>,
    last_number: u64,
}

impl fmt::Debug for ShardAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardAdapter")
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}

impl ShardAdapter {
    pub(super) fn new(shard: u16, access: AdapterAccess) -> Self {
        Self {
            shard,
            access,
            sessions: SessionTable::default(),
            cache: ItemCache::default(),
            heads: HashMap::new(),
            creates: HashMap::new(),
            creates_by_connection: HashMap::new(),
            adds: HashMap::new(),
            adds_by_session: BTreeMap::new(),
            lanes: MessageLanes::default(),
            last_number: 0,
        }
    }

    /// Stores the head of a request until its connection is closed.
    pub(super) fn note_head(
        &mut self,
        conn: ConnId,
        request: &HttpRequest<'_>,
        certificate: Option<CertificateNames>,
    ) {
        let name = certificate.and_then(|names| names.common.into_iter().next());
        let head = ClientHead::new(request.peer, request.headers()).with_principal(name);
        self.heads.insert(conn, Box::new(head));
    }

    /// Stores the head of a connection that another shard has accepted.
    pub(super) fn insert_head(&mut self, conn: ConnId, head: Option<Box<ClientHead>>) {
        if let Some(head) = head {
            self.heads.insert(conn, head);
        }
    }

    /// Removes and returns the head of a connection.
    pub(super) fn remove_head(&mut self, conn: ConnId) -> Option<Box<ClientHead>> {
        self.heads.remove(&conn)
    }

    /// Forgets a closed connection. What waits for a decision ends with it.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.heads.remove(&conn);
        let number = self.creates_by_connection.remove(&conn);
        if let Some(create) = number.and_then(|number| self.creates.get_mut(&number)) {
            create.is_open = false;
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn session(&self, key: SessionKey) -> Option<&OpenSession> {
        self.sessions.get(key.to_bits())
    }

    /// Sends a request, whose outcome comes as an event unless this fails.
    fn request(
        &self,
        request: AdapterRequest,
        call: AdapterCall,
        while_down: WhileDown,
    ) -> Result<(), AdapterFailure> {
        let shard = self.shard;
        let token = AdapterToken { shard, call };
        match self.access.port.request(request, token, while_down) {
            true => Ok(()),
            false => Err(AdapterFailure::Overloaded),
        }
    }

    fn notify_all(&self, requests: impl IntoIterator<Item = AdapterRequest>) {
        let port = &self.access.port;
        requests
            .into_iter()
            .for_each(|request| port.notify_close(request));
    }
}

impl Shard {
    /// Handles an outcome or a notification of the adapter.
    pub(super) fn adapter_event(&mut self, wire: &mut impl Wire, event: AdapterEvent) {
        match event {
            AdapterEvent::Complete(call, outcome) => match call {
                AdapterCall::User(number) => self.user_decided(wire, number, &outcome),
                AdapterCall::Session(number) => self.session_decided(wire, number, &outcome),
                AdapterCall::Subscription(number, method) => {
                    self.subscription_decided(wire, number, method, outcome);
                }
                AdapterCall::Message(index) => {
                    self.clients.adapter_replied(wire, index, &outcome);
                }
            },
            AdapterEvent::Notified(ticket, notification) => {
                self.clients.forced(wire, ticket, &notification);
            }
            AdapterEvent::Conflict(session) => self.clients.end_conflicting(wire, &session),
        }
    }
}

impl Clients {
    /// Returns `true` if the adapter decides about sessions of an adapter set.
    pub(super) fn asks_adapter(&self, adapter_set: &str) -> bool {
        let shared = &self.shared;
        shared.adapter.is_some() && shared.adapter_set(adapter_set) == Some(AdapterSet::Kafka)
    }

    /// Returns `true` if the adapter has accepted a session.
    pub(super) fn has_adapter(&self, key: SessionKey) -> bool {
        let adapter = self.adapter.as_ref();
        adapter.is_some_and(|adapter| adapter.session(key).is_some())
    }

    /// Returns the identity of a session, if its client is identified.
    pub(super) fn identity_of(&mut self, key: SessionKey) -> Option<Arc<UserIdentity>> {
        let own = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.identity());
        let adapter = self.adapter.as_ref();
        let other = || adapter?.session(key)?.identity.as_ref();
        own.or_else(other).cloned()
    }

    /// Informs the adapter of the end of a session and its subscriptions.
    pub(super) fn close_adapter_session(&mut self, key: SessionKey) {
        if let Some(adapter) = &mut self.adapter {
            let requests = adapter.sessions.close(key.to_bits());
            adapter.notify_all(requests);
        }
    }

    /// Informs the adapter of the end of a subscription.
    pub(super) fn close_adapter_subscription(&mut self, key: SessionKey, sub_id: u32) {
        if let Some(adapter) = &mut self.adapter {
            let request = adapter.sessions.unsubscribed(key.to_bits(), sub_id);
            adapter.notify_all(request);
        }
    }
}
