//! Requests for sessions that another shard keeps: they travel by mail, and their answers come back
//! to the connection they came in on, in the order of its requests.

use std::collections::VecDeque;
use std::time::Duration;

use weir_net::PostError;
use weir_net::server::{ConnId, ServerIo};
use weir_tlcp::request::Request;

use super::event::{ForwardedRequests, ForwardedResponse};
use super::pending_forwards::PendingForward;
use super::reply::{Reply, RequestTransport};
use super::teardown::ITEMS_PER_ITERATION;
use super::wire::{NOWHERE, Wire};
use super::{Shard, ShardEvent, http};

/// Messages of one WebSocket that may wait for the answer to an earlier one.
const PUT_OFF_MAX: usize = 64;
/// Bytes of them.
const PUT_OFF_BYTES_MAX: usize = 256 * 1024;

impl Shard {
    /// Sends the foreign requests of a message to their shards.
    pub(super) fn forward_requests(&mut self, reply: Reply) {
        self.errands.last += 1;
        let job = self.errands.last;
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut errands: Vec<(u16, ForwardedRequests)> = Vec::new();
        for (before, shard, request) in reply.foreign {
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
                via: reply.via.clone(),
                requests: vec![request],
            };
            parts.push(Vec::new());
            errands.push((shard, errand));
        }
        parts.push(reply.lines);
        let waiting = PendingForward {
            conn: reply.conn,
            via: reply.via,
            parts,
            missing: errands.len(),
            put_off: VecDeque::new(),
            put_off_bytes: 0,
        };
        self.errands.by_conn.insert(reply.conn, job);
        self.errands.jobs.insert(job, waiting);
        for (shard, errand) in errands {
            self.post(shard, ShardEvent::Errand(Box::new(errand)));
        }
    }

    /// Keeps a message for later, unless its sender overdoes it.
    pub(super) fn put_off(&mut self, wire: &mut impl Wire, conn: ConnId, text: &str) {
        let job = self.errands.by_conn.get(&conn).copied();
        let Some(job) = job.and_then(|job| self.errands.jobs.get_mut(&job)) else {
            return;
        };
        job.put_off_bytes += text.len();
        if job.put_off.len() >= PUT_OFF_MAX || job.put_off_bytes > PUT_OFF_BYTES_MAX {
            return self.give_up(wire, conn);
        }
        job.put_off.push_back(text.to_owned());
    }

    /// Carries out an errand of another shard, in a later iteration if this one has joined and
    /// released many items.
    pub(super) fn receive_errand(&mut self, wire: &mut impl Wire, errand: ForwardedRequests) {
        self.errands.incoming.push_back(errand);
        self.run_waiting_errands(wire);
    }

    pub(super) fn run_waiting_errands(&mut self, wire: &mut impl Wire) {
        while self.item_work < ITEMS_PER_ITERATION {
            let Some(errand) = self.errands.incoming.pop_front() else {
                return;
            };
            self.run_forwarded(wire, errand);
        }
    }

    /// Carries out what another shard was asked for.
    pub(super) fn run_forwarded(&mut self, wire: &mut impl Wire, errand: ForwardedRequests) {
        let mut reply = Reply::on(NOWHERE, errand.via, Vec::new());
        for request in &errand.requests {
            let named = match request {
                Request::Control(control) => control.session.as_ref(),
                Request::Message(message) => message.session.as_ref(),
                Request::Heartbeat(heartbeat) => heartbeat.session.as_ref(),
                _ => None,
            };
            let key = named.and_then(|id| self.sessions.find(self.number, id.as_str()));
            self.carry_out(wire, key, request, &mut reply);
        }
        let outcome = ForwardedResponse {
            job: errand.job,
            part: errand.part,
            lines: reply.lines,
        };
        self.post(errand.from, ShardEvent::Outcome(Box::new(outcome)));
    }

    /// A piece of an answer has come.
    pub(super) fn take_outcome(&mut self, wire: &mut impl Wire, outcome: ForwardedResponse) {
        let Some(job) = self.errands.jobs.get_mut(&outcome.job) else {
            return;
        };
        if let Some(part) = job.parts.get_mut(outcome.part) {
            *part = outcome.lines;
        }
        job.missing -= 1;
        if job.missing > 0 {
            return;
        }
        let Some(job) = self.errands.jobs.remove(&outcome.job) else {
            return;
        };
        self.errands.by_conn.remove(&job.conn);
        let lines = job.parts.concat();
        match &job.via {
            RequestTransport::Http { origin } => {
                wire.reply(job.conn, &http::lines(lines, origin.as_deref()));
            }
            RequestTransport::WebSocket => {
                if !lines.is_empty() && !wire.send_text(job.conn, &lines) {
                    self.give_up(wire, job.conn);
                }
            }
        }
        for text in job.put_off {
            self.handle_message(wire, job.conn, &text);
        }
    }

    /// Posts to another shard; what finds its inbox full goes out later, in order.
    pub(super) fn post(&mut self, shard: u16, mail: ShardEvent) {
        self.errands.outgoing.push_back((shard, mail));
        self.post_rest();
    }

    fn post_rest(&mut self) {
        let Some(peers) = self.shared.peers.get() else {
            return self.errands.outgoing.clear();
        };
        while let Some((shard, mail)) = self.errands.outgoing.pop_front() {
            // A shard that has ended takes its connections with it.
            let inbox = peers.get(usize::from(shard));
            let posted = inbox.map(|inbox| inbox.post(mail, Duration::ZERO));
            if let Some(Err(PostError::Full(mail))) = posted {
                return self.errands.outgoing.push_front((shard, mail));
            }
        }
    }

    /// Tries again what has found an inbox full.
    pub(super) fn retry_sends(&mut self, io: &mut ServerIo) {
        if !self.errands.outgoing.is_empty() {
            self.post_rest();
            io.wake_soon();
        }
    }
}
