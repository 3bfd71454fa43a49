//! Events that other threads post to a shard.

use std::sync::Arc;

use weir_adapter::ClientHead;
use weir_identity::UserIdentity;
use weir_ingest::ItemEvent;
use weir_net::server::Detached;
use weir_tlcp::request::{BindSession, CreateSession, Request, SessionRef};

use super::credentials::Client;
use super::dialect::Dialect;
use super::responses::{ForwardPlace, RequestTransport};
use super::visit::Visit;
use crate::adapter::AdapterEvent;
use weir_access::{AccessChange, ConnectionCredentials};

/// Event posted to a shard by an ingest worker, another shard or the main thread.
#[derive(Debug)]
pub(crate) enum ShardEvent {
    /// Event of an item.
    Item(ItemEvent),
    /// Connection that becomes the stream connection of a session of this shard.
    Handover(Box<(HandoverRequest, Detached)>),
    /// Requests for sessions of this shard that another shard received.
    Requests(Box<ForwardedRequests>),
    Response(Box<ForwardedResponse>),
    /// There are results of client messages. They are reported at the end of the iteration.
    MessageResults,
    /// End of a session of this shard that its client has replaced.
    /// `by` is the client of the new session.
    DiscardSession {
        id: SessionRef<'static>,
        by: Client,
    },
    /// Keys or revocations have changed.
    Access(AccessChange),
    /// End of the session with this key, which a newer one of its user replaces.
    Replaced(u64),
    /// Outcome or notification of the remote adapter.
    Adapter(Box<AdapterEvent>),
    /// Request of session administration.
    Visit(Box<Visit>),
    /// End of all sessions, spread over `spread_ms`. The shard stops at most `within_ms` later.
    Drain {
        spread_ms: u64,
        within_ms: u64,
    },
}

impl From<ItemEvent> for ShardEvent {
    fn from(event: ItemEvent) -> Self {
        Self::Item(event)
    }
}

#[derive(Debug)]
pub(crate) struct ForwardedRequests {
    pub(super) place: ForwardPlace,
    pub(super) transport: RequestTransport,
    /// Client whose credentials the connection has.
    pub(super) client: Option<Arc<UserIdentity>>,
    pub(super) requests: Vec<Request<'static>>,
}

#[derive(Debug)]
pub(crate) struct ForwardedResponse {
    pub(super) place: ForwardPlace,
    pub(super) lines: Vec<u8>,
}

/// A request that makes a connection the stream connection of a session.
#[derive(Debug)]
pub(crate) enum StreamRequest {
    Create(CreateSession<'static>, Client),
    Bind(BindSession<'static>),
}

/// The request that makes a connection leave the shard.
#[derive(Debug)]
pub(crate) struct HandoverRequest {
    pub(super) request: StreamRequest,
    pub(super) transport: RequestTransport,
    pub(super) dialect: Dialect,
    pub(super) credentials: Option<Box<ConnectionCredentials>>,
    pub(super) head: Option<Box<ClientHead>>,
}
