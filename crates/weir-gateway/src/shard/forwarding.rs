//! Requests and connections on the way to and from other shards. The responses to requests return
//! to the connection of the requests, in the order of the requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use weir_identity::UserIdentity;
use weir_net::PostError;
use weir_net::server::{ConnId, Detached};
use weir_tlcp::server::SessionId;

use super::context::ShardContext;
use super::event::{ForwardedRequests, ForwardedResponse, HandoverRequest, ShardEvent};
use super::responses::{ForwardPlace, RequestTransport, ResponseBatch};

/// A message whose responses are not complete.
#[derive(Debug)]
struct PendingForward {
    conn: ConnId,
    transport: RequestTransport,
    /// Parts of the response, in order.
    parts: Vec<Vec<u8>>,
    missing: usize,
}

#[derive(Debug)]
pub(super) struct Forwarding {
    shard: u16,
    shared: Arc<ShardContext>,
    /// By number; at most one message per connection.
    pending: HashMap<u64, PendingForward>,
    last_id: u64,
    /// Events that found a mailbox full, oldest first.
    outgoing: VecDeque<(u16, ShardEvent)>,
    /// Requests of other shards for a later iteration; at most one message per connection.
    pub(super) incoming: VecDeque<ForwardedRequests>,
    /// Shard to which the current connection moves after its message is handled.
    pub(super) handover: Option<(u16, HandoverRequest)>,
}

impl Forwarding {
    pub(super) fn new(shard: u16, shared: Arc<ShardContext>) -> Self {
        Self {
            shard,
            shared,
            pending: HashMap::default(),
            last_id: 0,
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            handover: None,
        }
    }

    /// Returns the shard of a session, if it is another one than this.
    pub(super) fn remote_shard(&self, id: &str) -> Option<u16> {
        let shard = SessionId::location_of(id)?.shard;
        let is_known = usize::from(shard) < self.shared.inboxes.get()?.len();
        (is_known && shard != self.shard).then_some(shard)
    }

    /// Sends the requests for sessions of other shards to these shards, until [`Self::complete`].
    /// With a remote adapter the response to each may come at another time.
    /// `client` is known if their connection has credentials.
    pub(super) fn forward(&mut self, responses: ResponseBatch, client: Option<Arc<UserIdentity>>) {
        self.last_id += 1;
        let forward_id = self.last_id;
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut batches: Vec<(u16, ForwardedRequests)> = Vec::new();
        for (before, shard, request) in responses.remote {
            match batches.last_mut() {
                Some((last, forwarded))
                    if *last == shard && before.is_empty() && self.shared.adapter.is_none() =>
                {
                    forwarded.requests.push(request);
                    continue;
                }
                _ => parts.push(before),
            }
            let forwarded = ForwardedRequests {
                place: ForwardPlace {
                    from: self.shard,
                    forward_id,
                    part: parts.len(),
                },
                transport: responses.transport.clone(),
                client: client.clone(),
                requests: vec![request],
            };
            parts.push(Vec::new());
            batches.push((shard, forwarded));
        }
        parts.push(responses.lines);
        let pending = PendingForward {
            conn: responses.conn,
            transport: responses.transport,
            parts,
            missing: batches.len(),
        };
        self.pending.insert(forward_id, pending);
        for (shard, forwarded) in batches {
            match shard == self.shard {
                true => self.incoming.push_back(forwarded),
                false => self.send(shard, ShardEvent::Requests(Box::new(forwarded))),
            }
        }
    }

    /// Adds the response of another shard. Returns all responses when they are complete.
    pub(super) fn complete(
        &mut self,
        response: ForwardedResponse,
    ) -> Option<(ConnId, RequestTransport, Vec<u8>)> {
        let ForwardPlace {
            forward_id, part, ..
        } = response.place;
        let pending = self.pending.get_mut(&forward_id)?;
        if let Some(part) = pending.parts.get_mut(part) {
            *part = response.lines;
        }
        pending.missing -= 1;
        if pending.missing > 0 {
            return None;
        }
        let pending = self.pending.remove(&forward_id)?;
        Some((pending.conn, pending.transport, pending.parts.concat()))
    }

    /// Sends a detached connection to the shard of its session.
    pub(super) fn hand_over(&mut self, connection: Detached) {
        if let Some((shard, request)) = self.handover.take() {
            self.send(shard, ShardEvent::Handover(Box::new((request, connection))));
        }
    }

    /// Posts an event to another shard. If its mailbox is full, the event is sent later, in order.
    pub(super) fn send(&mut self, shard: u16, event: ShardEvent) {
        self.outgoing.push_back((shard, event));
        self.retry();
    }

    /// Sends events that found a mailbox full. Returns `true` if there were any.
    pub(super) fn retry(&mut self) -> bool {
        let Some(inboxes) = self.shared.inboxes.get() else {
            self.outgoing.clear();
            return false;
        };
        let had_any = !self.outgoing.is_empty();
        while let Some((shard, event)) = self.outgoing.pop_front() {
            // A shard that has ended takes its connections with it.
            let inbox = inboxes.get(usize::from(shard));
            let posted = inbox.map(|inbox| inbox.post(event, Duration::ZERO));
            if let Some(Err(PostError::Timeout(event))) = posted {
                self.outgoing.push_front((shard, event));
                break;
            }
        }
        had_any
    }
}
