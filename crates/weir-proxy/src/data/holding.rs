//! Frames of a pair that must wait: for their time, for memory, for their filters.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::event_loop::{LoopState, PairCloseReason};
use super::filter_pool::{Cancel, Finished, Task};
use super::memory::Claim;
use super::pair::Pair;
use crate::filter::{Direction, FrameOutput};
use crate::wire::{DelayedFrame, StreamError, Unfinished};

/// Why a frame waits. Nothing overtakes it.
#[derive(Debug)]
pub(super) enum DelayAction {
    /// It goes on at an instant.
    Until(u64, Vec<u8>),
    /// There is work left on it, and no memory yet.
    Unfinished(Unfinished),
    /// Its filters are at work elsewhere, on so many bytes.
    Working(
        usize,
        #[expect(dead_code, reason = "its end is what matters")] Cancel,
    ),
}

impl DelayAction {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Until(_, frame) => frame.len(),
            Self::Unfinished(unfinished) => unfinished.frame.len(),
            Self::Working(bytes, _) => *bytes,
        }
    }

    /// Returns when it ends, if that is known.
    pub(super) fn until_ms(&self) -> Option<u64> {
        match self {
            Self::Until(at_ms, _) => Some(*at_ms),
            Self::Unfinished(_) | Self::Working(..) => None,
        }
    }
}

/// The beginning of a request that has come in part.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlowFrame {
    /// Requests before it.
    counted: u64,
    /// Bytes of all requests when it was last looked at.
    bytes: u64,
    /// When it must have come further.
    until_ms: u64,
    /// The proxy did not read for a part of the time.
    paused: bool,
}

/// Returns `true` unless memory is claimed and not granted.
pub(super) fn has_memory(claim: &Option<Claim>) -> bool {
    claim.as_ref().is_none_or(Claim::is_granted)
}

impl LoopState {
    pub(super) fn hold(
        &mut self,
        pair: &mut Pair,
        direction: Direction,
        held: Option<DelayedFrame>,
    ) {
        let hold = held.map(|held| match held {
            DelayedFrame::Delayed { time, frame } => {
                let at_ms = self.now_ms + super::forward::millis(time);
                DelayAction::Until(at_ms, frame)
            }
            DelayedFrame::Unfinished(unfinished) => DelayAction::Unfinished(unfinished),
        });
        match direction {
            Direction::Produce => pair.held_up = hold,
            Direction::Fetch => pair.held_down = hold,
        }
        let all = [&pair.held_up, &pair.held_down];
        let first = all
            .into_iter()
            .filter_map(|held| held.as_ref()?.until_ms())
            .min();
        if let Some(at_ms) = first {
            self.arm(pair, at_ms);
        }
        self.claim(pair, direction);
        self.submit(pair, direction);
    }

    /// Claims memory for a frame that is held whole, unless it is small.
    fn claim(&mut self, pair: &mut Pair, direction: Direction) {
        let (wanted, held, claim) = match direction {
            Direction::Produce => (pair.requests.wanted(), &pair.held_up, &mut pair.memory_up),
            Direction::Fetch => (
                pair.answers.wanted(),
                &pair.held_down,
                &mut pair.memory_down,
            ),
        };
        let held = held.as_ref().map_or(0, DelayAction::bytes);
        let frame = wanted.max(held);
        // What replaces it may be as large.
        let bytes = 2 * frame;
        if frame <= UNCLAIMED_BYTES || claim.as_ref().is_some_and(|it| it.bytes() >= bytes) {
            return;
        }
        // A smaller one, of the frame before, is given back first.
        *claim = None;
        *claim = Some(self.memory.claim(bytes));
        self.arm(pair, self.now_ms + CLAIM_LOOK_MS);
    }

    /// Gives memory back when nothing is held any more.
    pub(super) fn release_memory(&mut self, pair: &mut Pair) {
        let up = pair.memory_up.is_some() && pair.held_up.is_none() && pair.to_up.is_empty();
        if up && pair.requests.wanted() == 0 {
            pair.memory_up = None;
        }
        let down = pair.memory_down.is_some() && pair.held_down.is_none();
        if down && pair.to_down.is_empty() && pair.answers.wanted() == 0 {
            pair.memory_down = None;
        }
    }

    /// Hands a frame with work left to the threads for that, once there is memory for it.
    pub(super) fn submit(&mut self, pair: &mut Pair, direction: Direction) {
        let (held, memory) = match direction {
            Direction::Produce => (&mut pair.held_up, &pair.memory_up),
            Direction::Fetch => (&mut pair.held_down, &pair.memory_down),
        };
        if !matches!(held, Some(DelayAction::Unfinished(_))) || !has_memory(memory) {
            return;
        }
        let (Some(DelayAction::Unfinished(unfinished)), Some(pool)) = (held.take(), &self.pool)
        else {
            return;
        };
        let cancelled = Arc::new(AtomicBool::new(false));
        let cancel = Cancel(Arc::clone(&cancelled));
        *held = Some(DelayAction::Working(unfinished.frame.len(), cancel));
        self.counters.filter_tasks += 1;
        pool.submit(Task {
            pair: pair.id,
            direction,
            address: pair.peer.ip(),
            filters: Arc::clone(&self.clusters[pair.cluster].filters),
            unfinished,
            cancelled,
            reply: self.post.clone(),
        });
    }

    /// Has a frame go on whose filters have done their work.
    pub(super) fn filtered(
        &mut self,
        pair: &mut Pair,
        done: Finished,
    ) -> Result<(), PairCloseReason> {
        let held = match done.direction {
            Direction::Produce => &mut pair.held_up,
            Direction::Fetch => &mut pair.held_down,
        };
        *held = None;
        let fault = match done.direction {
            Direction::Produce => StreamError::Client,
            Direction::Fetch => StreamError::Broker,
        };
        let (verdict, frame) = done.outcome.map_err(fault)?;
        if let Some(entry) = done.request.and_then(|asked| asked.entry(&verdict)) {
            pair.ring.push(entry);
        }
        if verdict.pass != FrameOutput::Nothing {
            let time = verdict.hold;
            self.hold(
                pair,
                done.direction,
                Some(DelayedFrame::Delayed { time, frame }),
            );
        }
        self.release(pair)?;
        // A response that the proxy made itself, unless others come before it.
        self.segments.clear();
        if pair.held_down.is_none() {
            pair.answers.ready(&mut pair.ring, &mut self.segments);
        }
        self.send_down(pair, &[])
    }

    /// Notes that a request has come in part.
    pub(super) fn watch_frame(&mut self, pair: &mut Pair) {
        let known = pair.slow_frame.is_some_and(|it| it.counted == pair.counted);
        if !known {
            let until_ms = self.now_ms + self.limits.frame_ms;
            pair.slow_frame = Some(SlowFrame {
                counted: pair.counted,
                bytes: pair.request_bytes,
                until_ms,
                paused: false,
            });
            self.arm(pair, until_ms);
        }
    }

    /// Looks at frames that are held; when to look again.
    pub(super) fn check_held(&mut self, pair: &mut Pair) -> Result<u64, PairCloseReason> {
        let now_ms = self.now_ms;
        let mut next_ms = self.check_slow_frame(pair)?;
        for held in [&pair.held_up, &pair.held_down].into_iter().flatten() {
            // The pair gets its turn behind this, and what is due goes on then.
            if let Some(at_ms) = held.until_ms() {
                next_ms = next_ms.min(at_ms.max(now_ms + 1));
            }
        }
        let is_short = self.memory.is_short();
        for claim in [&mut pair.memory_up, &mut pair.memory_down] {
            let Some(claim) = claim else { continue };
            let Some(since_ms) = claim.granted_since_ms(now_ms) else {
                next_ms = next_ms.min(now_ms + CLAIM_LOOK_MS);
                continue;
            };
            let until_ms = since_ms + self.limits.frame_ms;
            if is_short && now_ms >= until_ms {
                return Err(PairCloseReason::Timeout(
                    "held memory for long while others waited",
                ));
            }
            next_ms = next_ms.min(until_ms.max(now_ms + MEMORY_LOOK_MS));
        }
        Ok(next_ms)
    }

    /// The beginning of a request must come further, unless it is the proxy that does not read.
    fn check_slow_frame(&mut self, pair: &mut Pair) -> Result<u64, PairCloseReason> {
        let now_ms = self.now_ms;
        let Some(slow) = pair.slow_frame else {
            return Ok(u64::MAX);
        };
        if slow.counted != pair.counted || !pair.requests.is_mid_head() {
            pair.slow_frame = None;
            return Ok(u64::MAX);
        }
        if now_ms < slow.until_ms {
            return Ok(slow.until_ms);
        }
        let came = pair.request_bytes - slow.bytes;
        let paused = !self.takes_requests(pair);
        if !paused && !slow.paused && came < FRAME_PROGRESS_BYTES {
            return Err(PairCloseReason::Timeout("a request does not get on"));
        }
        let until_ms = now_ms + self.limits.frame_ms;
        pair.slow_frame = Some(SlowFrame {
            bytes: pair.request_bytes,
            until_ms,
            paused,
            ..slow
        });
        Ok(until_ms)
    }
}

/// Frames up to this size are held without a claim: as much may be held for any connection.
const UNCLAIMED_BYTES: usize = 64 * 1024;
/// How often a claim that waits is looked at, in milliseconds.
const CLAIM_LOOK_MS: u64 = 20;
/// How often a claim that has been granted for long is looked at, in milliseconds.
const MEMORY_LOOK_MS: u64 = 250;
/// What must come of a frame within `frame_ms`.
const FRAME_PROGRESS_BYTES: u64 = 4 * 1024;
