//! Forwards requests for sessions of other shards. The responses return to the connection of the
//! requests, in the order of the requests.

use std::time::Duration;

use weir_net::PostError;
use weir_net::server::ServerIo;

use super::event::{ForwardedRequests, ForwardedResponse, PendingForward, ShardEvent};
use super::http;
use super::requests::named;
use super::responses::{RequestTransport, ResponseBatch};
use super::state::{ITEMS_PER_ITERATION, Shard};
use super::wire::{NO_CONNECTION, Wire};

impl Shard {
    /// Sends the requests for sessions of other shards to these shards.
    ///
    /// Responses keep the order of the requests, so the input of a WebSocket is paused until they
    /// are complete: a later message may move the connection to another shard.
    pub(super) fn forward_requests(&mut self, wire: &mut impl Wire, responses: ResponseBatch) {
        self.forwards.last_id += 1;
        let forward_id = self.forwards.last_id;
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut batches: Vec<(u16, ForwardedRequests)> = Vec::new();
        for (before, shard, request) in responses.remote {
            match batches.last_mut() {
                Some((last, forwarded)) if *last == shard && before.is_empty() => {
                    forwarded.requests.push(request);
                    continue;
                }
                _ => parts.push(before),
            }
            let forwarded = ForwardedRequests {
                from: self.number,
                forward_id,
                part: parts.len(),
                transport: responses.transport.clone(),
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
        if pending.transport == RequestTransport::WebSocket {
            wire.pause_input(pending.conn);
        }
        self.forwards.by_id.insert(forward_id, pending);
        for (shard, forwarded) in batches {
            self.send_event(shard, ShardEvent::Requests(Box::new(forwarded)));
        }
    }

    /// Executes requests of another shard, in a later iteration if this one has joined and released
    /// many items.
    pub(super) fn receive_requests(&mut self, wire: &mut impl Wire, forwarded: ForwardedRequests) {
        self.forwards.incoming.push_back(forwarded);
        self.run_pending_requests(wire);
    }

    pub(super) fn run_pending_requests(&mut self, wire: &mut impl Wire) {
        while self.work.items < ITEMS_PER_ITERATION {
            let Some(forwarded) = self.forwards.incoming.pop_front() else {
                return;
            };
            self.run_forwarded(wire, forwarded);
        }
    }

    /// Executes requests that another shard has forwarded.
    pub(super) fn run_forwarded(&mut self, wire: &mut impl Wire, forwarded: ForwardedRequests) {
        let mut responses = ResponseBatch::on(NO_CONNECTION, forwarded.transport, Vec::new());
        for request in &forwarded.requests {
            let key = named(request).and_then(|id| self.sessions.find(self.number, id));
            self.carry_out(wire, key, request, &mut responses);
        }
        let response = ForwardedResponse {
            forward_id: forwarded.forward_id,
            part: forwarded.part,
            lines: responses.lines,
        };
        self.send_event(forwarded.from, ShardEvent::Response(Box::new(response)));
    }

    /// Adds the response of another shard. Sends all responses when they are complete.
    pub(super) fn receive_response(&mut self, wire: &mut impl Wire, response: ForwardedResponse) {
        let Some(pending) = self.forwards.by_id.get_mut(&response.forward_id) else {
            return;
        };
        if let Some(part) = pending.parts.get_mut(response.part) {
            *part = response.lines;
        }
        pending.missing -= 1;
        if pending.missing > 0 {
            return;
        }
        let Some(pending) = self.forwards.by_id.remove(&response.forward_id) else {
            return;
        };
        let (conn, lines) = (pending.conn, pending.parts.concat());
        if !http::send_response(wire, conn, &pending.transport, lines) {
            self.drop_slow_client(wire, conn);
        }
        if pending.transport == RequestTransport::WebSocket {
            wire.resume_input(conn);
        }
    }

    /// Posts an event to another shard. If its mailbox is full, the event is sent later, in order.
    pub(super) fn send_event(&mut self, shard: u16, event: ShardEvent) {
        self.forwards.outgoing.push_back((shard, event));
        self.send_outgoing();
    }

    fn send_outgoing(&mut self) {
        let Some(peers) = self.shared.peers.get() else {
            return self.forwards.outgoing.clear();
        };
        while let Some((shard, event)) = self.forwards.outgoing.pop_front() {
            // A shard that has ended takes its connections with it.
            let inbox = peers.get(usize::from(shard));
            let posted = inbox.map(|inbox| inbox.post(event, Duration::ZERO));
            if let Some(Err(PostError::Timeout(event))) = posted {
                return self.forwards.outgoing.push_front((shard, event));
            }
        }
    }

    /// Retries events that found a mailbox full.
    pub(super) fn retry_sends(&mut self, io: &mut ServerIo) {
        if !self.forwards.outgoing.is_empty() {
            self.send_outgoing();
            io.wake_soon();
        }
    }
}
