//! Requests for sessions that another shard keeps: they travel by mail, and their answers come back
//! to the connection they came in on, in the order of its requests.

use std::collections::VecDeque;
use std::time::Duration;

use weir_net::PostError;
use weir_net::server::{ConnId, ServerIo};
use weir_tlcp::request::Request;

use super::event::{ForwardedRequests, ForwardedResponse};
use super::pending_forwards::PendingForward;
use super::responses::{RequestTransport, ResponseBatch};
use super::teardown::ITEMS_PER_ITERATION;
use super::wire::{NO_CONNECTION, Wire};
use super::{Shard, ShardEvent, http};

/// Messages of one WebSocket that may wait for the answer to an earlier one.
const PUT_OFF_MAX: usize = 64;
/// Bytes of them.
const PUT_OFF_BYTES_MAX: usize = 256 * 1024;

impl Shard {
    /// Sends the foreign requests of a message to their shards.
    pub(super) fn forward_requests(&mut self, responses: ResponseBatch) {
        self.forwarding.last += 1;
        let job = self.forwarding.last;
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut errands: Vec<(u16, ForwardedRequests)> = Vec::new();
        for (before, shard, request) in responses.remote {
            match errands.last_mut() {
                Some((last, errand)) if *last == shard && before.is_empty() => {
                    errand.requests.push(request);
                    continue;
                }
                _ => parts.push(before),
            }
            let errand = ForwardedRequests {
                from: self.number,
                job,
                part: parts.len(),
                transport: responses.transport.clone(),
                requests: vec![request],
            };
            parts.push(Vec::new());
            errands.push((shard, errand));
        }
        parts.push(responses.lines);
        let waiting = PendingForward {
            conn: responses.conn,
            transport: responses.transport,
            parts,
            missing: errands.len(),
            put_off: VecDeque::new(),
            put_off_bytes: 0,
        };
        self.forwarding.by_conn.insert(responses.conn, job);
        self.forwarding.jobs.insert(job, waiting);
        for (shard, errand) in errands {
            self.send_event(shard, ShardEvent::Requests(Box::new(errand)));
        }
    }

    /// Keeps a message for later, unless its sender overdoes it.
    pub(super) fn put_off(&mut self, wire: &mut impl Wire, conn: ConnId, text: &str) {
        let job = self.forwarding.by_conn.get(&conn).copied();
        let Some(job) = job.and_then(|job| self.forwarding.jobs.get_mut(&job)) else {
            return;
        };
        job.put_off_bytes += text.len();
        if job.put_off.len() >= PUT_OFF_MAX || job.put_off_bytes > PUT_OFF_BYTES_MAX {
            return self.drop_slow_client(wire, conn);
        }
        job.put_off.push_back(text.to_owned());
    }

    /// Carries out an errand of another shard, in a later iteration if this one has joined and
    /// released many items.
    pub(super) fn receive_requests(&mut self, wire: &mut impl Wire, errand: ForwardedRequests) {
        self.forwarding.incoming.push_back(errand);
        self.run_pending_requests(wire);
    }

    pub(super) fn run_pending_requests(&mut self, wire: &mut impl Wire) {
        while self.item_work < ITEMS_PER_ITERATION {
            let Some(errand) = self.forwarding.incoming.pop_front() else {
                return;
            };
            self.run_forwarded(wire, errand);
        }
    }

    /// Carries out what another shard was asked for.
    pub(super) fn run_forwarded(&mut self, wire: &mut impl Wire, errand: ForwardedRequests) {
        let mut responses = ResponseBatch::on(NO_CONNECTION, errand.transport, Vec::new());
        for request in &errand.requests {
            let named = match request {
                Request::Control(control) => control.session.as_ref(),
                Request::Message(message) => message.session.as_ref(),
                Request::Heartbeat(heartbeat) => heartbeat.session.as_ref(),
                _ => None,
            };
            let key = named.and_then(|id| self.sessions.find(self.number, id.as_str()));
            self.carry_out(wire, key, request, &mut responses);
        }
        let outcome = ForwardedResponse {
            job: errand.job,
            part: errand.part,
            lines: responses.lines,
        };
        self.send_event(errand.from, ShardEvent::Response(Box::new(outcome)));
    }

    /// A piece of an answer has come.
    pub(super) fn receive_response(&mut self, wire: &mut impl Wire, outcome: ForwardedResponse) {
        let Some(job) = self.forwarding.jobs.get_mut(&outcome.job) else {
            return;
        };
        if let Some(part) = job.parts.get_mut(outcome.part) {
            *part = outcome.lines;
        }
        job.missing -= 1;
        if job.missing > 0 {
            return;
        }
        let Some(job) = self.forwarding.jobs.remove(&outcome.job) else {
            return;
        };
        self.forwarding.by_conn.remove(&job.conn);
        let lines = job.parts.concat();
        match &job.transport {
            RequestTransport::Http { origin } => {
                wire.reply(job.conn, &http::tlcp_response(lines, origin.as_deref()));
            }
            RequestTransport::WebSocket => {
                if !lines.is_empty() && !wire.send_text(job.conn, &lines) {
                    self.drop_slow_client(wire, job.conn);
                }
            }
        }
        for text in job.put_off {
            self.handle_message(wire, job.conn, &text);
        }
    }

    /// Posts to another shard; what finds its inbox full goes out later, in order.
    pub(super) fn send_event(&mut self, shard: u16, event: ShardEvent) {
        self.forwarding.outgoing.push_back((shard, event));
        self.send_outgoing();
    }

    fn send_outgoing(&mut self) {
        let Some(peers) = self.shared.peers.get() else {
            return self.forwarding.outgoing.clear();
        };
        while let Some((shard, event)) = self.forwarding.outgoing.pop_front() {
            // A shard that has ended takes its connections with it.
            let inbox = peers.get(usize::from(shard));
            let posted = inbox.map(|inbox| inbox.post(event, Duration::ZERO));
            if let Some(Err(PostError::Full(event))) = posted {
                return self.forwarding.outgoing.push_front((shard, event));
            }
        }
    }

    /// Tries again what has found an inbox full.
    pub(super) fn retry_sends(&mut self, io: &mut ServerIo) {
        if !self.forwarding.outgoing.is_empty() {
            self.send_outgoing();
            io.wake_soon();
        }
    }
}
