//! State of the remote adapter in a shard: accepted sessions and waiting requests.

use std::collections::BTreeMap;
use std::fmt;

use foldhash::{HashMap, HashMapExt as _};
use weir_adapter::decision::{ClientInfo, ItemCache, SubscriptionFlow, UserDecision};
use weir_adapter::{
    AdapterFailure, ClientHead, MessageLanes, OpenSession, SessionTable, WhileDown,
};
use weir_fanout::SessionKey;
use weir_identity::ari::{AdapterRequest, Parameter};
use weir_net::http1::HttpRequest;
use weir_net::server::ConnId;
use weir_net::tls::CertificateNames;
use weir_tlcp::request::{Add, CreateSession};
use weir_tlcp::server::SequenceId;

use crate::adapter::{AdapterAccess, AdapterCall, AdapterToken};
use crate::messages::InFlight;
use crate::shard::credentials::Client;
use crate::shard::messages::PendingMessage;
use crate::shard::responses::{ForwardPlace, RequestTransport};

/// Requests of a shard that wait for the adapter, and the sessions that it has accepted.
pub(in crate::shard) struct ShardAdapter {
    pub(super) shard: u16,
    pub(super) access: AdapterAccess,
    pub(super) sessions: SessionTable,
    pub(super) cache: ItemCache,
    /// Heads of the requests that opened WebSockets, or that create sessions over HTTP.
    pub(super) heads: HashMap<ConnId, Box<ClientHead>>,
    /// Sessions that wait for a decision, by number; at most one per connection.
    pub(super) creates: HashMap<u64, PendingCreate>,
    pub(super) creates_by_connection: HashMap<ConnId, u64>,
    /// Subscriptions that wait for a decision, by number, and their numbers by session.
    pub(super) adds: HashMap<u64, PendingAdd>,
    pub(super) adds_by_session: BTreeMap<(u64, u32), u64>,
    pub(super) lanes: MessageLanes<(SessionKey, SequenceId), AdapterMessage>,
    pub(super) last_number: u64,
}

impl fmt::Debug for ShardAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardAdapter")
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}

impl ShardAdapter {
    pub(in crate::shard) fn new(shard: u16, access: AdapterAccess) -> Self {
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
    pub(in crate::shard) fn note_head(
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
    pub(in crate::shard) fn insert_head(&mut self, conn: ConnId, head: Option<Box<ClientHead>>) {
        if let Some(head) = head {
            self.heads.insert(conn, head);
        }
    }

    /// Removes and returns the head of a connection.
    pub(in crate::shard) fn remove_head(&mut self, conn: ConnId) -> Option<Box<ClientHead>> {
        self.heads.remove(&conn)
    }

    /// Forgets a closed connection. What waits for a decision ends with it.
    pub(in crate::shard) fn forget(&mut self, conn: ConnId) {
        self.heads.remove(&conn);
        let number = self.creates_by_connection.remove(&conn);
        if let Some(create) = number.and_then(|number| self.creates.get_mut(&number)) {
            create.is_open = false;
        }
    }

    /// Returns `true` if a session of a connection waits for a decision.
    pub(in crate::shard) fn has_create(&self, conn: ConnId) -> bool {
        self.creates_by_connection.contains_key(&conn)
    }

    /// Returns the number of a session's waiting subscription to a group.
    pub(in crate::shard) fn waiting_add(&self, key: SessionKey, group: &str) -> Option<u32> {
        let bits = key.to_bits();
        let mut waiting = self.adds_by_session.range((bits, 0)..=(bits, u32::MAX));
        let is_named = |number: &u64| {
            self.adds
                .get(number)
                .is_some_and(|one| one.add.group == group)
        };
        let found = waiting.find(|(_, number)| is_named(number))?;
        Some(found.0.1)
    }

    pub(in crate::shard) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn session(&self, key: SessionKey) -> Option<&OpenSession> {
        self.sessions.get(key.to_bits())
    }

    /// Sends a request, whose outcome comes as an event unless this fails.
    pub(super) fn request(
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

    pub(super) fn notify_all(&self, requests: impl IntoIterator<Item = AdapterRequest>) {
        let port = &self.access.port;
        requests
            .into_iter()
            .for_each(|request| port.notify_close(request));
    }
}

/// A session without a stream connection.
pub(super) struct NewSession {
    pub(super) key: SessionKey,
    pub(super) id: String,
    /// Its first lines.
    pub(super) lines: Vec<u8>,
}

/// A session that waits for a decision.
pub(super) struct PendingCreate {
    pub(super) conn: ConnId,
    /// `false` after the client has closed its connection.
    pub(super) is_open: bool,
    pub(super) transport: RequestTransport,
    pub(super) create: CreateSession<'static>,
    pub(super) client: Client,
    pub(super) info: ClientInfo,
    pub(super) context: Vec<Parameter>,
    /// Response lines before those of the session.
    pub(super) before: Vec<u8>,
    pub(super) user: Option<UserDecision>,
    /// The session without a stream connection.
    pub(super) session: Option<NewSession>,
    pub(super) conflicts: u32,
}

/// A subscription that waits for a decision.
pub(super) struct PendingAdd {
    pub(super) session: SessionKey,
    pub(super) add: Add<'static>,
    pub(super) request_id: Option<Box<str>>,
    pub(super) ack: bool,
    pub(super) receiver: ResponseReceiver,
    pub(super) flow: SubscriptionFlow,
    /// The client has the response already, and wants no subscription.
    pub(super) is_cancelled: bool,
}

/// Where the response goes.
pub(super) enum ResponseReceiver {
    /// A WebSocket.
    Connection(ConnId),
    Forward(ForwardPlace),
}

/// A message whose turn has come.
#[derive(Debug)]
pub(in crate::shard) struct AdapterMessage {
    pub(in crate::shard) pending: PendingMessage,
    pub(in crate::shard) share: InFlight,
    pub(in crate::shard) text: Box<str>,
}
