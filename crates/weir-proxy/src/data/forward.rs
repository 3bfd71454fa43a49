//! Forwards bytes of one pair in both directions as far as both sockets allow.

use super::delayed::{DelayAction, has_memory};
use super::iteration::{READ_BYTES, read_bytes_for};
use super::loop_state::{LoopState, PairCloseReason};
use super::pair::{ConnectionPair, Upstream};
use super::splice::SPLICE_BYTES_MIN;
use super::stream::Input;
use crate::filter::Direction;
use crate::wire::{FilterStage, RequestContext, ResponseContext};

/// Number of reads that stay smaller after a peer did not accept all bytes.
const READ_BACKOFF: u8 = 32;
/// Maximum time a pair stays open after one side has closed, in milliseconds.
const CLOSING_MS: u64 = 5_000;

impl LoopState {
    /// Forwards as much as possible. Returns `true` if the pair has more work at once.
    pub(super) fn forward(&mut self, pair: &mut ConnectionPair) -> Result<bool, PairCloseReason> {
        let mut budget = self.iteration_limits.reads;
        self.requests_until = pair.counted + self.iteration_limits.requests;
        self.submit(pair, Direction::Produce);
        self.submit(pair, Direction::Fetch);
        loop {
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
        let mut moved = self.release_delayed(pair)?;
        if pair.down.may_write() {
            if pair.down.stream.wants_write() {
                pair.down.stream.flush().map_err(PairCloseReason::client)?;
            }
            moved |= self.drain_pipe(pair)?;
            if !pair.to_down.is_empty() && pair.pipe.is_none() {
                self.counters.writes += 1;
                let sent = pair.to_down.flush(&mut pair.down.stream);
                sent.map_err(PairCloseReason::client)?;
                pair.down.blocked = !pair.to_down.is_empty();
                moved |= !pair.down.blocked;
            }
        }
        if let Some(up) = pair.up.open().filter(|up| up.may_write()) {
            if up.stream.wants_write() {
                up.stream.flush().map_err(PairCloseReason::broker)?;
            }
            if !pair.to_up.is_empty() {
                self.counters.writes += 1;
                pair.to_up
                    .flush(&mut up.stream)
                    .map_err(PairCloseReason::broker)?;
                up.blocked = !pair.to_up.is_empty();
                moved |= !up.blocked;
            }
        }
        Ok(moved)
    }

    /// Forwards delayed frames whose time has come. Returns `true` if there were any.
    pub(super) fn release_delayed(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<bool, PairCloseReason> {
        let now_ms = self.now_ms;
        let due = |delayed: &mut Option<DelayAction>| match delayed {
            Some(DelayAction::Until(at_ms, _)) if *at_ms <= now_ms => match delayed.take() {
                Some(DelayAction::Until(_, frame)) => Some(frame),
                _ => None,
            },
            _ => None,
        };
        let request = due(&mut pair.delayed_request);
        let response = due(&mut pair.delayed_response);
        let moved = request.is_some() || response.is_some();
        if let Some(frame) = request {
            self.segments.push_owned(frame);
            self.send_up(pair, &[])?;
        }
        if let Some(frame) = response {
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
            && pair.to_up.is_empty()
            && pair.delayed_request.is_none()
            && !pair.in_flight.is_full(self.limits.in_flight_requests)
            && has_memory(&pair.memory_up)
    }

    fn read_requests(
        &mut self,
        pair: &mut ConnectionPair,
        budget: &mut u32,
    ) -> Result<bool, PairCloseReason> {
        if !self.takes_requests(pair) {
            return Ok(false);
        }
        if pair.requests.has_backlog() {
            // The part that does not fit is copied back, so this pays only if much of it fits.
            if pair.in_flight.len() > self.limits.in_flight_requests / 2 {
                return Ok(false);
            }
            let mut backlog = pair.requests.take_backlog();
            self.handle_requests(pair, &mut backlog)?;
            return Ok(true);
        }
        let read_backoff = pair.up.open().map_or(0, |up| up.read_backoff);
        let limit = match self.draining {
            // Only the rest of a partly received request.
            true => pair.requests.missing().min(READ_BYTES),
            false => read_bytes_for(read_backoff).min(self.iteration_limits.read_bytes),
        };
        if !pair.down.readable || pair.down.ended || *budget == 0 || limit == 0 {
            return Ok(false);
        }
        *budget -= 1;
        let mut buffer = std::mem::take(&mut self.buffer);
        let input = pair.down.stream.read(&mut buffer[..limit]);
        let outcome = input.map_err(PairCloseReason::client).and_then(|input| {
            self.note_read(pair, input, true);
            self.handle_requests(pair, &mut buffer[..input.count])?;
            Ok(input.count > 0)
        });
        self.buffer = buffer;
        outcome
    }

    /// Processes bytes from the client.
    fn handle_requests(
        &mut self,
        pair: &mut ConnectionPair,
        input: &mut [u8],
    ) -> Result<(), PairCloseReason> {
        if input.is_empty() {
            return Ok(());
        }
        let before = pair.counted;
        let cluster = &self.clusters[pair.cluster];
        let mut delayed = None;
        let mut context = RequestContext {
            supported: &cluster.supported,
            limits: self.frames,
            in_flight: &mut pair.in_flight,
            software: &mut pair.software,
            requests: &mut pair.counted,
            requests_until: self.requests_until,
            filtering: FilterStage {
                filters: &cluster.filters,
                buffers: &mut self.filter_buffers,
                delayed: &mut delayed,
            },
        };
        self.segments.clear();
        let fed = pair.requests.feed(input, &mut context, &mut self.segments);
        self.counters.requests += pair.counted - before;
        fed?;
        if pair.requests.is_mid_head() {
            self.watch_frame(pair);
        }
        if delayed.is_some() || pair.requests.wanted() > 0 {
            self.delay(pair, Direction::Produce, delayed);
        }
        self.send_up(pair, input)?;
        // The proxy's own responses, unless a delayed response comes before them.
        if pair.delayed_response.is_none() {
            pair.responses
                .push_ready(&mut pair.in_flight, &mut self.segments);
        }
        self.send_down(pair, &[])
    }

    fn send_up(&mut self, pair: &mut ConnectionPair, input: &[u8]) -> Result<(), PairCloseReason> {
        if self.segments.is_empty() {
            return Ok(());
        }
        match &mut pair.up {
            Upstream::Open(up, _) => {
                self.counters.writes += 1;
                let sent = pair.to_up.send(&mut up.stream, &self.segments, input);
                sent.map_err(PairCloseReason::broker)?;
                up.blocked = !pair.to_up.is_empty();
                up.read_backoff = next_read_backoff(up.read_backoff, up.blocked);
                self.counters.blocked += u64::from(up.blocked);
            }
            Upstream::None => {
                pair.to_up.store(&self.segments, input, 0);
                self.connect(pair)?;
            }
            Upstream::Resolving(_) | Upstream::Connecting(..) => {
                pair.to_up.store(&self.segments, input, 0)
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
        let waits = pair.delayed_response.is_some() || !has_memory(&pair.memory_down);
        if !pair.has_sent_all() || waits {
            return Ok(false);
        }
        if pair.responses.has_backlog() {
            let mut backlog = pair.responses.take_backlog();
            self.handle_responses(pair, &mut backlog)?;
            return Ok(true);
        }
        let Some(up) = pair.up.open() else {
            return Ok(false);
        };
        if !up.readable || up.ended || *budget == 0 {
            return Ok(false);
        }
        *budget -= 1;
        if pair.responses.pass_through_bytes() >= SPLICE_BYTES_MIN {
            if let Some(moved) = self.splice_response(pair)? {
                return Ok(moved);
            }
        }
        let limit = self.response_bytes_at_once(pair);
        let Some(up) = pair.up.open() else {
            return Ok(false);
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let input = up.stream.read(&mut buffer[..limit]);
        let outcome = input.map_err(PairCloseReason::broker).and_then(|input| {
            self.note_read(pair, input, false);
            self.handle_responses(pair, &mut buffer[..input.count])?;
            Ok(input.count > 0)
        });
        self.buffer = buffer;
        outcome
    }

    /// Processes bytes from the broker.
    fn handle_responses(
        &mut self,
        pair: &mut ConnectionPair,
        input: &mut [u8],
    ) -> Result<(), PairCloseReason> {
        if input.is_empty() {
            return Ok(());
        }
        let cluster = &mut self.clusters[pair.cluster];
        let mut delayed = None;
        let mut context = ResponseContext {
            supported: &cluster.supported,
            limits: self.frames,
            in_flight: &mut pair.in_flight,
            mapper: &mut cluster.addresses,
            responses: &mut self.counters.responses,
            rewritten: &mut self.counters.rewritten,
            filtering: FilterStage {
                filters: &cluster.filters,
                buffers: &mut self.filter_buffers,
                delayed: &mut delayed,
            },
        };
        self.segments.clear();
        pair.responses
            .feed(input, &mut context, &mut self.segments)?;
        if delayed.is_some() || pair.responses.wanted() > 0 {
            self.delay(pair, Direction::Fetch, delayed);
        }
        self.send_down(pair, input)
    }

    pub(super) fn send_down(
        &mut self,
        pair: &mut ConnectionPair,
        input: &[u8],
    ) -> Result<(), PairCloseReason> {
        if self.segments.is_empty() {
            return Ok(());
        }
        if pair.pipe.is_some() {
            pair.to_down.store(&self.segments, input, 0);
            self.segments.clear();
            return Ok(());
        }
        self.counters.writes += 1;
        let down = &mut pair.down;
        let sent = pair.to_down.send(&mut down.stream, &self.segments, input);
        sent.map_err(PairCloseReason::client)?;
        down.blocked = !pair.to_down.is_empty();
        down.read_backoff = next_read_backoff(down.read_backoff, down.blocked);
        self.counters.blocked += u64::from(down.blocked);
        self.segments.clear();
        Ok(())
    }

    pub(super) fn note_read(&mut self, pair: &mut ConnectionPair, input: Input, from_client: bool) {
        self.counters.reads += 1;
        let side = match from_client {
            true => Some(&mut pair.down),
            false => pair.up.open(),
        };
        let Some(side) = side else { return };
        side.ended |= input.ended;
        // A read below the buffer size means that the socket is empty, unless it has been closed.
        side.readable = !side.ended && (!input.drained || (side.hung_up && input.count > 0));
        if input.count == 0 {
            return;
        }
        pair.active_ms = self.now_ms;
        let bytes = input.count as u64;
        if from_client {
            pair.request_bytes += bytes;
            self.counters.request_bytes += bytes;
        } else {
            pair.broker_active_ms = self.now_ms;
            pair.response_bytes += bytes;
            self.counters.response_bytes += bytes;
        }
    }

    /// Closes a direction or the pair after one side has closed.
    fn check_ends(&mut self, pair: &mut ConnectionPair) -> Result<(), PairCloseReason> {
        if self.draining && pair.is_quiet() {
            return Err(PairCloseReason::Drained);
        }
        let mut one_ended = false;
        if pair.down.ended
            && pair.to_up.is_empty()
            && !pair.requests.has_backlog()
            && pair.delayed_request.is_none()
        {
            match pair.up.open() {
                // Forwarded bytes arrive before the close.
                Some(up) => up.finish(),
                None => return Err(PairCloseReason::Closed),
            }
            one_ended = true;
        }
        let up_ended = pair.up.open().is_some_and(|up| up.ended);
        if up_ended && pair.has_sent_all() && !pair.down.stream.wants_write() {
            pair.down.finish();
            one_ended = true;
        }
        if pair.down.ended && up_ended {
            return Err(PairCloseReason::Closed);
        }
        if one_ended && pair.ends_ms.is_none() {
            let ends_ms = self.now_ms + CLOSING_MS;
            pair.ends_ms = Some(ends_ms);
            self.arm(pair, ends_ms);
        }
        Ok(())
    }
}

fn next_read_backoff(read_backoff: u8, blocked: bool) -> u8 {
    if blocked {
        READ_BACKOFF
    } else {
        read_backoff.saturating_sub(1)
    }
}
