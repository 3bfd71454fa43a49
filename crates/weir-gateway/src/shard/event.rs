//! Events that other threads post to a shard.

use std::sync::Arc;

use weir_mapping::{FieldSet, FrozenValues};
use weir_net::server::Detached;
use weir_tlcp::request::{BindSession, Request, SessionRef};

use super::dialect::Dialect;
use super::item_history::PastUpdate;
use super::responses::RequestTransport;
use crate::interest::ItemKey;

/// What other threads tell a shard.
#[derive(Debug)]
pub(crate) enum ShardEvent {
    /// An item has a new event.
    Update {
        item: ItemKey,
        update: Arc<FrozenValues>,
        /// What was extracted; other fields are absent although the record may have them.
        fields: Arc<FieldSet>,
        /// When the record was written, in milliseconds since 1970; -1 if it does not say so.
        record_ms: i64,
    },
    /// The present values of an item that the shard has begun to want, or wants more fields of.
    Known {
        item: ItemKey,
        update: Arc<FrozenValues>,
        /// What was extracted.
        fields: Arc<FieldSet>,
    },
    /// The rows of an item that one worker knows from before the shard began to want them.
    Rows(Box<RowBackfill>),
    /// The last updates of an item that one worker knows from before the shard began to want them.
    History(Box<ToldHistory>),
    /// A connection takes its items away from everybody.
    ForceUnsubscribe { connection: u16 },
    /// A connection that is to be the stream of a session of this shard.
    Handover(Box<Handover>),
    /// Requests about sessions of this shard that came in elsewhere.
    Requests(Box<ForwardedRequests>),
    /// The answers to such requests.
    Response(Box<ForwardedResponse>),
    /// A session of this shard that its client has given up.
    DiscardSession(SessionRef<'static>),
    /// Say goodbye to all sessions, spread over a time, then stop, at most so much later.
    Drain { spread_ms: u64, within_ms: u64 },
}

/// See [`ShardEvent::Rows`].
#[derive(Debug)]
pub(crate) struct RowBackfill {
    pub(crate) item: ItemKey,
    /// Of the wish that it answers.
    pub(crate) generation: u32,
    pub(crate) rows: Vec<Arc<FrozenValues>>,
    /// More is to come before the snapshot is complete.
    pub(crate) in_snapshot: bool,
}

/// See [`ShardEvent::History`].
#[derive(Debug)]
pub(crate) struct ToldHistory {
    pub(crate) item: ItemKey,
    /// Of the wish that it answers.
    pub(crate) generation: u32,
    /// The oldest first.
    pub(crate) updates: Vec<PastUpdate>,
}

/// Requests for one shard.
#[derive(Debug)]
pub(crate) struct ForwardedRequests {
    pub(super) from: u16,
    pub(super) job: u64,
    pub(super) part: usize,
    pub(super) transport: RequestTransport,
    pub(super) requests: Vec<Request<'static>>,
}

/// What came of an errand.
#[derive(Debug)]
pub(crate) struct ForwardedResponse {
    pub(super) job: u64,
    pub(super) part: usize,
    pub(super) lines: Vec<u8>,
}

/// A connection on its way to the shard that keeps the session it asks for.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(super) bind: BindSession<'static>,
    pub(super) transport: RequestTransport,
    pub(super) dialect: Dialect,
    pub(super) connection: Detached,
}

/// Where a connection goes that is about to leave.
#[derive(Debug)]
pub(super) struct HandoverTarget {
    pub(super) shard: u16,
    pub(super) bind: BindSession<'static>,
    pub(super) transport: RequestTransport,
    pub(super) dialect: Dialect,
}
