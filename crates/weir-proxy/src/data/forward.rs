//! What one pair does in its turn: move bytes in both directions as far as both sides go along.

use std::time::Duration;

use super::event_loop::{LoopState, PairCloseReason};
use super::holding::{DelayAction, has_memory};
use super::pair::{Pair, Upstream};
use super::splice::TUBE_FROM_BYTES;
use super::stream::Input;
use crate::filter::Direction;
use crate::wire::{FilterStage, RequestContext, ResponseContext};

/// Reads of one pair before others get their turn, if few have something to do.
const READS_PER_ITERATION: usize = 8;
/// Bytes that all pairs may read in one iteration: about what keeps it below 10 ms even where each
/// byte is kept in new memory.
const BYTES_PER_ITERATION: usize = 8 << 20;
/// Requests of one pair in its turn, if few have something to do: one read can hold tens of
/// thousands that the proxy answers itself.
const REQUESTS_PER_TURN: usize = 1_000;
/// Requests of all pairs in one iteration.
const REQUESTS_PER_ITERATION: usize = 4_000;
/// Bytes read at once.
pub(super) const READ_BYTES: usize = 256 * 1024;
/// Bytes read at once for a peer that does not keep up: what it does not take must be kept.
const READ_BYTES_CAUTIOUS: usize = 64 * 1024;
/// Bytes read at once if very many pairs have something to do.
const READ_BYTES_CROWDED: usize = 32 * 1024;
/// Reads for which a peer that did not keep up is given less.
const CAUTION: u8 = 32;
/// How long the rest of a connection may take when one side has ended, in milliseconds.
const CLOSING_MS: u64 = 5_000;

/// What one pair may read in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnLimits {
    reads: u32,
    requests: u64,
    /// Bytes of one read.
    pub(super) read_bytes: usize,
}

impl TurnLimits {
    /// Shares an iteration among `busy` pairs: one that waits for its turn waits for all others.
    pub(super) fn share(busy: usize) -> Self {
        let share = BYTES_PER_ITERATION / busy.max(1);
        Self {
            reads: (share / READ_BYTES).clamp(1, READS_PER_ITERATION) as u32,
            requests: (REQUESTS_PER_ITERATION / busy.max(1)).clamp(1, REQUESTS_PER_TURN) as u64,
            read_bytes: share.clamp(READ_BYTES_CROWDED, READ_BYTES),
        }
    }
}

impl LoopState {
    /// Moves what can be moved; whether there is more to do at once.
    pub(super) fn drive(&mut self, pair: &mut Pair) -> Result<bool, PairCloseReason> {
        let mut budget = self.turn_limits.reads;
        self.requests_until = pair.counted + self.turn_limits.requests;
        self.submit(pair, Direction::Produce);
        self.submit(pair, Direction::Fetch);
        loop {
            let mut moved = self.flush(pair)?;
            moved |= self.read_requests(pair, &mut budget)?;
            moved |= self.read_answers(pair, &mut budget)?;
            if !moved {
                break;
            }
            if budget == 0 || pair.counted >= self.requests_until {
                return Ok(true);
            }
        }
        self.release_memory(pair);
        self.ends(pair)?;
        Ok(false)
    }

    /// Sends what waits, if there is hope; whether room was made.
    fn flush(&mut self, pair: &mut Pair) -> Result<bool, PairCloseReason> {
        let mut moved = self.release(pair)?;
        if pair.down.may_write() {
            if pair.down.stream.wants_write() {
                pair.down.stream.flush().map_err(PairCloseReason::client)?;
            }
            moved |= self.drain_pipe(pair)?;
            if !pair.to_down.is_empty() && pair.tube.is_none() {
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

    /// Lets frames go whose time has come; whether there were any.
    pub(super) fn release(&mut self, pair: &mut Pair) -> Result<bool, PairCloseReason> {
        let now_ms = self.now_ms;
        let due = |held: &mut Option<DelayAction>| match held {
            Some(DelayAction::Until(at_ms, _)) if *at_ms <= now_ms => match held.take() {
                Some(DelayAction::Until(_, frame)) => Some(frame),
                _ => None,
            },
            _ => None,
        };
        let request = due(&mut pair.held_up);
        let answer = due(&mut pair.held_down);
        let moved = request.is_some() || answer.is_some();
        if let Some(frame) = request {
            self.segments.made(frame);
            self.send_up(pair, &[])?;
        }
        if let Some(frame) = answer {
            self.segments.made(frame);
            pair.answers.ready(&mut pair.ring, &mut self.segments);
            self.send_down(pair, &[])?;
        }
        Ok(moved)
    }

    /// Returns `true` if more requests may be read.
    pub(super) fn takes_requests(&self, pair: &Pair) -> bool {
        // A client that does not take what it was sent gets nothing more done, so that responses
        // of the proxy itself cannot pile up. Brokers do the same.
        pair.has_sent_all()
            && pair.to_up.is_empty()
            && pair.held_up.is_none()
            && !pair.ring.is_full(self.limits.in_flight)
            && has_memory(&pair.memory_up)
    }

    fn read_requests(
        &mut self,
        pair: &mut Pair,
        budget: &mut u32,
    ) -> Result<bool, PairCloseReason> {
        if !self.takes_requests(pair) {
            return Ok(false);
        }
        if pair.requests.has_backlog() {
            // What does not fit is copied back: worth it only if much of it fits.
            if pair.ring.len() > self.limits.in_flight / 2 {
                return Ok(false);
            }
            let mut backlog = pair.requests.take_backlog();
            self.requests(pair, &mut backlog)?;
            return Ok(true);
        }
        let caution = pair.up.open().map_or(0, |up| up.caution);
        let limit = match self.draining {
            // Only what belongs to the request under way.
            true => pair.requests.missing().min(READ_BYTES),
            false => bytes_at_once(caution).min(self.turn_limits.read_bytes),
        };
        if !pair.down.readable || pair.down.ended || *budget == 0 || limit == 0 {
            return Ok(false);
        }
        *budget -= 1;
        let mut buffer = std::mem::take(&mut self.buffer);
        let input = pair.down.stream.read(&mut buffer[..limit]);
        let outcome = input.map_err(PairCloseReason::client).and_then(|input| {
            self.note_read(pair, input, true);
            self.requests(pair, &mut buffer[..input.count])?;
            Ok(input.count > 0)
        });
        self.buffer = buffer;
        outcome
    }

    /// Takes what a client sent.
    fn requests(&mut self, pair: &mut Pair, input: &mut [u8]) -> Result<(), PairCloseReason> {
        if input.is_empty() {
            return Ok(());
        }
        let before = pair.counted;
        let parts = &self.clusters[pair.cluster];
        let mut held = None;
        let mut context = RequestContext {
            offer: &parts.offer,
            limits: self.frames,
            ring: &mut pair.ring,
            software: &mut pair.software,
            requests: &mut pair.counted,
            requests_until: self.requests_until,
            filtering: FilterStage {
                filters: &parts.filters,
                workspace: &mut self.workspace,
                held: &mut held,
            },
        };
        self.segments.clear();
        let fed = pair.requests.feed(input, &mut context, &mut self.segments);
        self.counters.requests += pair.counted - before;
        fed?;
        if pair.requests.is_mid_head() {
            self.watch_frame(pair);
        }
        if held.is_some() || pair.requests.wanted() > 0 {
            self.hold(pair, Direction::Produce, held);
        }
        self.send_up(pair, input)?;
        // Answers that need no broker, unless others come before them.
        if pair.held_down.is_none() {
            pair.answers.ready(&mut pair.ring, &mut self.segments);
        }
        self.send_down(pair, &[])
    }

    fn send_up(&mut self, pair: &mut Pair, input: &[u8]) -> Result<(), PairCloseReason> {
        if self.segments.is_empty() {
            return Ok(());
        }
        match &mut pair.up {
            Upstream::Open(up, _) => {
                self.counters.writes += 1;
                let sent = pair.to_up.send(&mut up.stream, &self.segments, input);
                sent.map_err(PairCloseReason::broker)?;
                up.blocked = !pair.to_up.is_empty();
                up.caution = next_read_backoff(up.caution, up.blocked);
                self.counters.blocked += u64::from(up.blocked);
            }
            Upstream::None => {
                pair.to_up.keep(&self.segments, input, 0);
                self.connect(pair)?;
            }
            Upstream::Resolving(_) | Upstream::Connecting(..) => {
                pair.to_up.keep(&self.segments, input, 0)
            }
        }
        self.segments.clear();
        Ok(())
    }

    fn read_answers(&mut self, pair: &mut Pair, budget: &mut u32) -> Result<bool, PairCloseReason> {
        let waits = pair.held_down.is_some() || !has_memory(&pair.memory_down);
        if !pair.has_sent_all() || waits {
            return Ok(false);
        }
        if pair.answers.has_backlog() {
            let mut backlog = pair.answers.take_backlog();
            self.answers(pair, &mut backlog)?;
            return Ok(true);
        }
        let Some(up) = pair.up.open() else {
            return Ok(false);
        };
        if !up.readable || up.ended || *budget == 0 {
            return Ok(false);
        }
        *budget -= 1;
        if pair.answers.passing() >= TUBE_FROM_BYTES {
            if let Some(moved) = self.splice_response(pair)? {
                return Ok(moved);
            }
        }
        let limit = self.answer_bytes_at_once(pair);
        let Some(up) = pair.up.open() else {
            return Ok(false);
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let input = up.stream.read(&mut buffer[..limit]);
        let outcome = input.map_err(PairCloseReason::broker).and_then(|input| {
            self.note_read(pair, input, false);
            self.answers(pair, &mut buffer[..input.count])?;
            Ok(input.count > 0)
        });
        self.buffer = buffer;
        outcome
    }

    /// Takes what a broker sent.
    fn answers(&mut self, pair: &mut Pair, input: &mut [u8]) -> Result<(), PairCloseReason> {
        if input.is_empty() {
            return Ok(());
        }
        let parts = &mut self.clusters[pair.cluster];
        let mut held = None;
        let mut context = ResponseContext {
            offer: &parts.offer,
            limits: self.frames,
            ring: &mut pair.ring,
            places: &mut parts.places,
            answers: &mut self.counters.answers,
            rewritten: &mut self.counters.rewritten,
            filtering: FilterStage {
                filters: &parts.filters,
                workspace: &mut self.workspace,
                held: &mut held,
            },
        };
        self.segments.clear();
        pair.answers.feed(input, &mut context, &mut self.segments)?;
        if held.is_some() || pair.answers.wanted() > 0 {
            self.hold(pair, Direction::Fetch, held);
        }
        self.send_down(pair, input)
    }

    pub(super) fn send_down(
        &mut self,
        pair: &mut Pair,
        input: &[u8],
    ) -> Result<(), PairCloseReason> {
        if self.segments.is_empty() {
            return Ok(());
        }
        if pair.tube.is_some() {
            pair.to_down.keep(&self.segments, input, 0);
            self.segments.clear();
            return Ok(());
        }
        self.counters.writes += 1;
        let down = &mut pair.down;
        let sent = pair.to_down.send(&mut down.stream, &self.segments, input);
        sent.map_err(PairCloseReason::client)?;
        down.blocked = !pair.to_down.is_empty();
        down.caution = next_read_backoff(down.caution, down.blocked);
        self.counters.blocked += u64::from(down.blocked);
        self.segments.clear();
        Ok(())
    }

    pub(super) fn note_read(&mut self, pair: &mut Pair, input: Input, from_client: bool) {
        self.counters.reads += 1;
        let side = match from_client {
            true => Some(&mut pair.down),
            false => pair.up.open(),
        };
        let Some(side) = side else { return };
        side.ended |= input.ended;
        // A socket that gave less than it might have is empty, unless it has been closed.
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
            pair.answered_ms = self.now_ms;
            pair.answer_bytes += bytes;
            self.counters.answer_bytes += bytes;
        }
    }

    /// What the end of one side means for the other.
    fn ends(&mut self, pair: &mut Pair) -> Result<(), PairCloseReason> {
        if self.draining && pair.is_quiet() {
            return Err(PairCloseReason::Drained);
        }
        let mut one_ended = false;
        if pair.down.ended
            && pair.to_up.is_empty()
            && !pair.requests.has_backlog()
            && pair.held_up.is_none()
        {
            match pair.up.open() {
                // What was sent without wanting an answer has arrived before this does.
                Some(up) => up.finish(),
                None => return Err(PairCloseReason::Gone),
            }
            one_ended = true;
        }
        let up_ended = pair.up.open().is_some_and(|up| up.ended);
        if up_ended && pair.has_sent_all() && !pair.down.stream.wants_write() {
            pair.down.finish();
            one_ended = true;
        }
        if pair.down.ended && up_ended {
            return Err(PairCloseReason::Gone);
        }
        if one_ended && pair.ends_ms.is_none() {
            let ends_ms = self.now_ms + CLOSING_MS;
            pair.ends_ms = Some(ends_ms);
            self.arm(pair, ends_ms);
        }
        Ok(())
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2)
}

pub(super) fn bytes_at_once(caution: u8) -> usize {
    if caution == 0 {
        READ_BYTES
    } else {
        READ_BYTES_CAUTIOUS
    }
}

fn next_read_backoff(caution: u8, blocked: bool) -> u8 {
    if blocked {
        CAUTION
    } else {
        caution.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_reads_no_more_the_more_pairs_are_busy() {
        for busy in [0, 1, 4, 5, 31, 32, 100, 256] {
            let limits = TurnLimits::share(busy);
            let bytes = busy * limits.reads as usize * limits.read_bytes;
            assert!(bytes <= BYTES_PER_ITERATION, "{busy}: {limits:?}");
        }
        let few = TurnLimits::share(4);
        assert_eq!((few.reads, few.read_bytes), (8, READ_BYTES));
        let many = TurnLimits::share(10_000);
        assert_eq!((many.reads, many.read_bytes), (1, READ_BYTES_CROWDED));
    }
}
