//! Requests that other shards carry out and whose responses are outstanding.

use std::collections::VecDeque;

use foldhash::HashMap;
use weir_net::server::ConnId;

use super::event::{ForwardedRequests, ShardEvent};
use super::responses::RequestTransport;

/// One message whose answer is not complete.
#[derive(Debug)]
pub(super) struct PendingForward {
    pub(super) conn: ConnId,
    pub(super) transport: RequestTransport,
    /// The answer, piece by piece.
    pub(super) parts: Vec<Vec<u8>>,
    pub(super) missing: usize,
    /// Messages that came meanwhile.
    pub(super) put_off: VecDeque<String>,
    pub(super) put_off_bytes: usize,
}

/// All that is on its way; at most one job per connection.
#[derive(Debug, Default)]
pub(super) struct Forwarding {
    pub(super) jobs: HashMap<u64, PendingForward>,
    pub(super) by_conn: HashMap<ConnId, u64>,
    pub(super) last: u64,
    /// Mails that found an inbox full, the oldest first.
    pub(super) outgoing: VecDeque<(u16, ShardEvent)>,
    /// Errands of other shards for a later iteration; at most one per connection of theirs.
    pub(super) incoming: VecDeque<ForwardedRequests>,
}

impl Forwarding {
    pub(super) fn is_waiting(&self, conn: ConnId) -> bool {
        !self.by_conn.is_empty() && self.by_conn.contains_key(&conn)
    }

    /// Returns `true` if errands of other shards wait for a later iteration.
    pub(super) fn has_incoming(&self) -> bool {
        !self.incoming.is_empty()
    }
}
