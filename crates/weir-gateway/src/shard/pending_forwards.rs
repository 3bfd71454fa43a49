//! State of requests that are forwarded to other shards, or received from them.

use std::collections::VecDeque;

use foldhash::HashMap;
use weir_net::server::ConnId;

use super::event::{ForwardedRequests, ShardEvent};
use super::responses::RequestTransport;

/// A message whose responses are not complete.
#[derive(Debug)]
pub(super) struct PendingForward {
    pub(super) conn: ConnId,
    pub(super) transport: RequestTransport,
    /// Parts of the response, in order.
    pub(super) parts: Vec<Vec<u8>>,
    pub(super) missing: usize,
}

/// All forwarded requests; at most one message per connection.
#[derive(Debug, Default)]
pub(super) struct Forwarding {
    pub(super) by_id: HashMap<u64, PendingForward>,
    pub(super) last_id: u64,
    /// Events that found a mailbox full, oldest first.
    pub(super) outgoing: VecDeque<(u16, ShardEvent)>,
    /// Requests of other shards for a later iteration; at most one per connection of theirs.
    pub(super) incoming: VecDeque<ForwardedRequests>,
}

impl Forwarding {
    /// Returns `true` if requests of other shards wait for a later iteration.
    pub(super) fn has_incoming(&self) -> bool {
        !self.incoming.is_empty()
    }
}
