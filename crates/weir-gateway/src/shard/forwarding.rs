//! Requests for sessions that another shard keeps: they travel by mail, and their answers come back
//! to the connection they came in on, in the order of its requests.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::HashMap;
use weir_net::PostError;
use weir_net::server::{ConnId, ServerIo};
use weir_tlcp::request::Request;

use super::lifecycle::NOWHERE;
use super::requests::{Reply, RequestTransport};
use super::teardown::ITEMS_PER_ITERATION;
use super::wire::Wire;
use super::{Shard, ShardEvent, http};

/// Requests for one shard.
#[derive(Debug)]
pub(crate) struct ForwardedRequests {
    from: u16,
    job: u64,
    part: usize,
    via: RequestTransport,
    requests: Vec<Request<'static>>,
}

/// What came of an errand.
#[derive(Debug)]
pub(crate) struct ForwardedResponse {
    job: u64,
    part: usize,
    lines: Vec<u8>,
}

/// One message whose answer is not complete.
#[derive(Debug)]
struct PendingForward {
    conn: ConnId,
    via: RequestTransport,
    /// The answer, piece by piece.
    parts: Vec<Vec<u8>>,
    missing: usize,
}

/// All that is on its way; at most one job per connection.
#[derive(Debug, Default)]
pub(super) struct Forwarding {
    jobs: HashMap<u64, PendingForward>,
    last: u64,
    /// Mails that found an inbox full, the oldest first.
    outgoing: VecDeque<(u16, ShardEvent)>,
    /// Errands of other shards for a later iteration; at most one per connection of theirs.
    incoming: VecDeque<ForwardedRequests>,
}

impl Forwarding {
    /// Returns `true` if errands of other shards wait for a later iteration.
    pub(super) fn has_incoming(&self) -> bool {
        !self.incoming.is_empty()
    }
}

impl Shard {
    /// Sends the foreign requests of a message to their shards.
    ///
    /// Responses keep the order of the requests, so the input of a WebSocket is paused until they
    /// are complete: a later message may move the connection to another shard.
    pub(super) fn forward_requests(&mut self, wire: &mut impl Wire, reply: Reply) {
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
        };
        if waiting.via == RequestTransport::WebSocket {
            wire.pause_input(reply.conn);
        }
        self.errands.jobs.insert(job, waiting);
        for (shard, errand) in errands {
            self.post(shard, ShardEvent::Errand(Box::new(errand)));
        }
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
        let lines = job.parts.concat();
        match &job.via {
            RequestTransport::Http { origin } => {
                wire.reply(job.conn, &http::lines(lines, origin.as_deref()));
            }
            RequestTransport::WebSocket => {
                if !lines.is_empty() && !wire.send_text(job.conn, &lines) {
                    self.give_up(wire, job.conn);
                }
                wire.resume_input(job.conn);
            }
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
