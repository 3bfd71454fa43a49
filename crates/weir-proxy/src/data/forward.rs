//! Forwards bytes of one connection pair in both directions as far as both sockets allow.

use std::io::{self, IoSlice};

use smallvec::SmallVec;
use weir_net::stream::{Input, SendQueue};

use super::iteration::{READ_BYTES, read_bytes_for};
use super::loop_state::{LoopState, PairCloseReason};
use super::pair::{ConnectionPair, Endpoint, Upstream, WaitReason};
use super::splice::SPLICE_BYTES_MIN;
use crate::versions;
use crate::wire::{FilterStage, RequestContext, ResponseContext};
use weir_filters::Direction;

/// Number of reads for which the read size stays reduced after a peer did not accept all bytes.
const READ_BACKOFF: u8 = 32;
/// Maximum time a pair stays open after one side has closed, in milliseconds.
const CLOSING_MS: u64 = 5_000;

impl LoopState {
    /// Forwards as much as possible. Returns `true` if the pair has more work at once.
    pub(super) fn forward(&mut self, pair: &mut ConnectionPair) -> Result<bool, PairCloseReason> {
        let mut budget = self.iteration_limits.reads;
        self.requests_until = pair.counted + self.iteration_limits.requests;
        if pair.has_delayed() {
            self.submit(pair, Direction::Produce);
            self.submit(pair, Direction::Fetch);
        }
        loop {
            // Repeated after each read: the end of a TLS handshake permits writing without an event
            // for the socket.
            if pair.broker_session.is_some() {
                self.begin_broker_login(pair)?;
            }
            let mut moved = self.flush(pair)?;
            moved |= self.read_requests(pair, &mut budget)?;
            moved |= self.read_responses(pair, &mut budget)?;
            if !moved {
                break;
            }
            if budget == 0 || pair.counted >= self.requests_until {
                return Ok(true);
            }
        }
        self.release_memory(pair);
        self.check_ends(pair)?;
        Ok(false)
    }

    /// Sends pending bytes to sockets that may accept them. Returns `true` if a send buffer became
    /// empty.
    fn flush(&mut self, pair: &mut ConnectionPair) -> Result<bool, PairCloseReason> {
        let mut moved = pair.has_delayed() && self.release_delayed(pair)?;
        if pair.pipe.is_some() && pair.downstream.may_write() {
            moved |= self.drain_pipe(pair)?;
        }
        if pair.pipe.is_none() && pair.downstream.has_to_send(&pair.fetch.queue) {
            let emptied = self.flush_queue(&mut pair.downstream, &mut pair.fetch.queue);
            moved |= emptied.map_err(PairCloseReason::Client)?;
        }
        let queue = &mut pair.produce.queue;
        if let Some(upstream) = pair
            .upstream
            .open()
            .filter(|upstream| upstream.has_to_send(queue))
        {
            let emptied = self.flush_queue(upstream, queue);
            moved |= emptied.map_err(PairCloseReason::Broker)?;
        }
        Ok(moved)
    }

    /// Sends pending bytes, and protocol messages of TLS. Returns `true` if the queue became empty.
    fn flush_queue(&mut self, to: &mut Endpoint, queue: &mut SendQueue) -> io::Result<bool> {
        let has_bytes = !queue.is_empty();
        let flushed = to.stream.flush(queue, &mut self.tls, false)?;
        self.counters.writes += flushed.calls as u64;
        to.blocked = !queue.is_empty();
        Ok(has_bytes && !to.blocked)
    }

    /// Sends the segments and stores what the socket does not accept.
    fn send(&mut self, to: &mut Endpoint, queue: &mut SendQueue, input: &[u8]) -> io::Result<()> {
        // Collecting would move the list once more.
        let mut slices = SmallVec::<[IoSlice<'_>; 4]>::new();
        slices.extend(self.segments.slices(input).map(IoSlice::new));
        let sent = to.stream.send(&slices, queue, &mut self.tls)?;
        self.counters.writes += sent.calls as u64;
        to.blocked = !sent.done;
        to.read_backoff = match to.blocked {
            true => READ_BACKOFF,
            false => to.read_backoff.saturating_sub(1),
        };
        self.counters.blocked += u64::from(to.blocked);
        Ok(())
    }

    /// Queues the segments behind bytes that have to be sent first.
    fn store(&self, queue: &mut SendQueue, input: &[u8]) {
        let slices: SmallVec<[IoSlice<'_>; 4]> =
            self.segments.slices(input).map(IoSlice::new).collect();
        queue.push_copy(&slices, 0);
    }

    /// Forwards delayed frames whose delay has ended. Returns `true` if there were any.
    pub(super) fn release_delayed(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<bool, PairCloseReason> {
        let now_ms = self.now_ms();
        let due = |delayed: &mut Option<WaitReason>| match delayed {
            Some(WaitReason::Until(at_ms, _)) if *at_ms <= now_ms => match delayed.take() {
                Some(WaitReason::Until(_, frame)) => Some(frame),
                _ => None,
            },
            _ => None,
        };
        let request = due(&mut pair.produce.delayed);
        let response = due(&mut pair.fetch.delayed);
        let moved = request.is_some() || response.is_some();
        if let Some(frame) = request {
            pair.count_held(Direction::Produce);
            self.segments.push_owned(frame);
            self.send_up(pair, &[])?;
        }
        if let Some(frame) = response {
            pair.count_held(Direction::Fetch);
            self.segments.push_owned(frame);
            pair.responses
                .push_ready(&mut pair.in_flight, &mut self.segments);
            self.send_down(pair, &[])?;
        }
        Ok(moved)
    }

    /// Returns `true` if more requests may be read.
    pub(super) fn takes_requests(&self, pair: &ConnectionPair) -> bool {
        // A client that does not read its responses gets no further requests processed, so that the
        // proxy's own responses cannot accumulate. Brokers do the same.
        pair.has_sent_all()
            && pair.produce.queue.is_empty()
            && pair.produce.delayed.is_none()
            && !pair
                .in_flight
                .is_full(self.generation.limits.in_flight_requests)
            && pair.produce.has_memory()
            && !pair.in_flight.has_lookup()
            && !pair.login.as_ref().is_some_and(|gate| gate.pauses())
            && !pair.broker_session.as_ref().is_some_and(|one| one.pauses())
    }

    fn read_requests(
        &mut self,
        pair: &mut ConnectionPair,
        budget: &mut u32,
    ) -> Result<bool, PairCloseReason> {
        if pair.login.as_ref().is_some_and(|gate| gate.has_failed()) {
            return self.discard_requests(pair, budget);
        }
        if !self.takes_requests(pair) {
            return Ok(false);
        }
        if pair.requests.has_backlog() {
            // The part that does not fit is copied back, so this pays only if much of it fits.
            if pair.in_flight.len() > self.generation.limits.in_flight_requests / 2 {
                return Ok(false);
            }
            let mut backlog = pair.requests.take_backlog();
            self.handle_requests(pair, &mut backlog)?;
            return Ok(true);
        }
        let read_backoff = pair
            .upstream
            .open()
            .map_or(0, |upstream| upstream.read_backoff);
        let limit = match self.ends(pair) {
            // The pair closes: only the rest of a partly received request is read.
            true => pair.requests.missing().min(READ_BYTES),
            false => read_bytes_for(read_backoff).min(self.iteration_limits.read_bytes),
        };
        if !pair.downstream.readable || pair.downstream.ended || *budget == 0 || limit == 0 {
            return Ok(false);
        }
        *budget -= 1;
        let mut buffer = std::mem::take(&mut self.buffer);
        let input = pair
            .downstream
            .stream
            .read(&mut buffer[..limit], &mut self.tls);
        let outcome = input.map_err(PairCloseReason::Client).and_then(|input| {
            self.note_read(pair, input, true);
            self.handle_requests(pair, &mut buffer[..input.plain])?;
            Ok(input.wire + input.plain > 0)
        });
        self.buffer = buffer;
        outcome
    }

    fn handle_requests(
        &mut self,
        pair: &mut ConnectionPair,
        input: &mut [u8],
    ) -> Result<(), PairCloseReason> {
        if input.is_empty() {
            return Ok(());
        }
        self.certify(pair)?;
        let before = pair.counted;
        if let Some(gate) = &mut pair.login {
            gate.set_now(self.core.now_ms());
        }
        pair.in_flight.begin_input();
        let is_held = self.holds_requests(pair);
        let requests_until = match is_held {
            true => before,
            false => self.requests_until,
        };
        let cluster = &pair.cluster;
        let mut delayed = None;
        let mut context = RequestContext {
            supported: ConnectionPair::supported(pair.offered.as_ref(), cluster),
            limits: &self.generation.limits,
            in_flight: &mut pair.in_flight,
            software: &mut pair.software,
            requests: &mut pair.counted,
            requests_until,
            filtering: FilterStage {
                filters: &cluster.config.filters,
                buffers: &mut self.filter_buffers,
                delayed: &mut delayed,
            },
            access: ConnectionPair::access(
                &mut pair.access,
                (pair.login.as_deref(), pair.certified.as_ref()),
                pair.peer,
                cluster,
            ),
            login: pair.login.as_deref_mut(),
        };
        self.segments.clear();
        let fed = pair.requests.feed(input, &mut context, &mut self.segments);
        self.counters.requests += pair.counted - before;
        if let Some(audit) = pair.cluster.audit.get() {
            for (key, client_id) in pair.in_flight.take_writes() {
                let request = (versions::name(key), client_id);
                audit.request(request, pair.peer, pair.principal());
            }
        }
        fed?;
        if is_held {
            self.require_broker_login(pair);
        }
        if pair.requests.is_mid_head() {
            self.watch_frame(pair);
        }
        if delayed.is_some() || pair.requests.needed_bytes() > 0 {
            self.delay(pair, Direction::Produce, delayed);
        }
        self.send_up(pair, input)?;
        // The proxy's own responses, unless a delayed response comes before them.
        if pair.fetch.delayed.is_none() {
            pair.responses
                .push_ready(&mut pair.in_flight, &mut self.segments);
        }
        self.send_down(pair, &[])?;
        self.after_requests(pair)
    }

    /// Sends the segments to the broker, or queues them until the connection to it is open.
    fn send_up(&mut self, pair: &mut ConnectionPair, input: &[u8]) -> Result<(), PairCloseReason> {
        if self.segments.is_empty() {
            return Ok(());
        }
        match &mut pair.upstream {
            Upstream::Open(upstream, _) => {
                let sent = self.send(upstream, &mut pair.produce.queue, input);
                sent.map_err(PairCloseReason::Broker)?;
            }
            Upstream::None => {
                self.store(&mut pair.produce.queue, input);
                self.connect(pair)?;
            }
            Upstream::Resolving(_) | Upstream::Connecting(..) => {
                self.store(&mut pair.produce.queue, input);
            }
        }
        self.segments.clear();
        Ok(())
    }

    fn read_responses(
        &mut self,
        pair: &mut ConnectionPair,
        budget: &mut u32,
    ) -> Result<bool, PairCloseReason> {
        let session = pair.broker_session.as_ref();
        if session.is_some_and(|session| session.takes_responses()) {
            return self.read_broker_login(pair, budget);
        }
        let waits = pair.fetch.delayed.is_some() || !pair.fetch.has_memory();
        if !pair.has_sent_all() || waits {
            return Ok(false);
        }
        if pair.responses.has_backlog() {
            let mut backlog = pair.responses.take_backlog();
            self.handle_responses(pair, &mut backlog)?;
            return Ok(true);
        }
        let Some(upstream) = pair.upstream.open() else {
            return Ok(false);
        };
        if !upstream.readable || upstream.ended || *budget == 0 {
            return Ok(false);
        }
        *budget -= 1;
        if pair.responses.pass_through_bytes() >= SPLICE_BYTES_MIN {
            if let Some(moved) = self.splice_response(pair)? {
                return Ok(moved);
            }
        }
        let limit = self.response_bytes_at_once(pair);
        let Some(upstream) = pair.upstream.open() else {
            return Ok(false);
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let input = upstream.stream.read(&mut buffer[..limit], &mut self.tls);
        let outcome = input.map_err(PairCloseReason::Broker).and_then(|input| {
            self.note_read(pair, input, false);
            self.handle_responses(pair, &mut buffer[..input.plain])?;
            Ok(input.wire + input.plain > 0)
        });
        self.buffer = buffer;
        outcome
    }

    fn handle_responses(
        &mut self,
        pair: &mut ConnectionPair,
        input: &mut [u8],
    ) -> Result<(), PairCloseReason> {
        if input.is_empty() {
            return Ok(());
        }
        pair.in_flight.begin_input();
        let cluster = &pair.cluster;
        let mut delayed = None;
        let mut context = ResponseContext {
            supported: ConnectionPair::supported(pair.offered.as_ref(), cluster),
            limits: &self.generation.limits,
            in_flight: &mut pair.in_flight,
            mapper: self.addresses[cluster.index].of(&cluster.broker_registry, pair.by_name),
            responses: &mut self.counters.responses,
            rewritten: &mut self.counters.rewritten,
            filtering: FilterStage {
                filters: &cluster.config.filters,
                buffers: &mut self.filter_buffers,
                delayed: &mut delayed,
            },
            access: ConnectionPair::access(
                &mut pair.access,
                (pair.login.as_deref(), pair.certified.as_ref()),
                pair.peer,
                cluster,
            ),
        };
        self.segments.clear();
        pair.responses
            .feed(input, &mut context, &mut self.segments)?;
        if delayed.is_some() || pair.responses.needed_bytes() > 0 {
            self.delay(pair, Direction::Fetch, delayed);
        }
        self.send_down(pair, input)
    }

    /// Sends the segments to the client, or queues them behind the bytes in the pipe.
    pub(super) fn send_down(
        &mut self,
        pair: &mut ConnectionPair,
        input: &[u8],
    ) -> Result<(), PairCloseReason> {
        if self.segments.is_empty() {
            return Ok(());
        }
        if pair.pipe.is_some() {
            self.store(&mut pair.fetch.queue, input);
        } else {
            let sent = self.send(&mut pair.downstream, &mut pair.fetch.queue, input);
            sent.map_err(PairCloseReason::Client)?;
        }
        self.segments.clear();
        Ok(())
    }

    pub(super) fn note_read(&mut self, pair: &mut ConnectionPair, input: Input, from_client: bool) {
        self.counters.reads += 1;
        let side = match from_client {
            true => Some(&mut pair.downstream),
            false => pair.upstream.open(),
        };
        let Some(side) = side else { return };
        side.ended |= input.ended;
        // A read below the buffer size means that the socket is empty, unless it has been closed.
        side.readable = !side.ended && (!input.drained || (side.hung_up && input.wire > 0));
        if input.plain == 0 {
            return;
        }
        pair.active_ms = self.now_ms();
        let bytes = input.plain as u64;
        if from_client {
            pair.request_bytes += bytes;
            self.counters.request_bytes += bytes;
        } else {
            pair.broker_active_ms = self.now_ms();
            pair.response_bytes += bytes;
            self.counters.response_bytes += bytes;
        }
    }

    /// Closes a direction or the pair after one side has closed.
    fn check_ends(&mut self, pair: &mut ConnectionPair) -> Result<(), PairCloseReason> {
        if self.ends(pair) && pair.is_quiet() {
            return Err(PairCloseReason::Drained);
        }
        let mut one_ended = false;
        if pair.downstream.ended
            && pair.produce.queue.is_empty()
            && !pair.requests.has_backlog()
            && pair.produce.delayed.is_none()
        {
            match pair.upstream.open() {
                // Forwarded bytes arrive before the close.
                Some(upstream) => upstream.finish(&mut self.tls),
                None => return Err(PairCloseReason::Closed),
            }
            one_ended = true;
        }
        let up_ended = pair.upstream.open().is_some_and(|upstream| upstream.ended);
        if up_ended && pair.has_sent_all() && !pair.downstream.stream.wants_write() {
            pair.downstream.finish(&mut self.tls);
            one_ended = true;
        }
        let is_rejected = pair.login.as_ref().is_some_and(|gate| gate.is_closing());
        if is_rejected && pair.in_flight.is_empty() && pair.has_sent_all() {
            pair.downstream.finish(&mut self.tls);
            one_ended = true;
        }
        if pair.downstream.ended && up_ended {
            return Err(PairCloseReason::Closed);
        }
        if one_ended && pair.ends_ms.is_none() {
            let ends_ms = self.now_ms() + CLOSING_MS;
            pair.ends_ms = Some(ends_ms);
            self.arm(pair, ends_ms);
        }
        Ok(())
    }
}
