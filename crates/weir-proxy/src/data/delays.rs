//! Frames of a pair that wait: for a delay, for memory, or for filter threads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::events::FinishedFrame;
use super::filter_pool::{CancelOnDrop, FilterTask};
use super::loop_state::{LoopState, PairCloseReason};
use super::memory::Claim;
use super::pair::{ConnectionPair, SlowFrame, WaitReason};
use crate::versions::PRODUCE;
use crate::wire::{DelayedFrame, StreamError, errors};
use weir_filters::{Direction, FrameOutput};

impl LoopState {
    pub(super) fn delay(
        &mut self,
        pair: &mut ConnectionPair,
        direction: Direction,
        delayed: Option<DelayedFrame>,
    ) {
        let (now_ms, now_us) = (self.now_ms(), pair.in_flight.now_us());
        if delayed.is_some() {
            pair.flow(direction).held_since_us.get_or_insert(now_us);
        }
        pair.flow(direction).delayed = delayed.map(|delayed| match delayed {
            DelayedFrame::Delayed { time, frame } => {
                WaitReason::Until(now_ms + millis(time), frame)
            }
            DelayedFrame::Unfinished(unfinished) => WaitReason::Unfinished(unfinished),
        });
        let flows = [&pair.produce, &pair.fetch].into_iter();
        let first = flows.filter_map(|flow| flow.delayed.as_ref()?.until_ms());
        let first = first.min();
        if let Some(at_ms) = first {
            self.arm(pair, at_ms);
        }
        self.claim(pair, direction);
        self.submit(pair, direction);
    }

    /// Claims memory for a buffered frame, unless it is small.
    fn claim(&mut self, pair: &mut ConnectionPair, direction: Direction) {
        let needed_bytes = pair.needed_bytes(direction);
        let flow = pair.flow(direction);
        let frame = needed_bytes.max(flow.delayed.as_ref().map_or(0, WaitReason::bytes));
        // A rebuilt frame may be as large.
        let bytes = 2 * frame;
        let claimed = flow.memory.as_ref().map_or(0, Claim::bytes);
        if frame <= UNCLAIMED_BYTES || claimed >= bytes {
            return;
        }
        // Returns the smaller claim of an earlier frame first.
        flow.memory = None;
        flow.memory = Some(self.shared.memory.claim(bytes));
        self.arm(pair, self.now_ms() + CLAIM_CHECK_MS);
    }

    /// Returns the memory when no frame is buffered.
    pub(super) fn release_memory(&mut self, pair: &mut ConnectionPair) {
        for direction in [Direction::Produce, Direction::Fetch] {
            let needed_bytes = pair.needed_bytes(direction);
            let flow = pair.flow(direction);
            if flow.memory.is_some() && needed_bytes == 0 && flow.is_idle() {
                flow.memory = None;
            }
        }
    }

    /// Hands a frame with unfinished filter work to the filter threads, once it has memory.
    pub(super) fn submit(&mut self, pair: &mut ConnectionPair, direction: Direction) {
        let flow = pair.flow(direction);
        if !matches!(flow.delayed, Some(WaitReason::Unfinished(_))) || !flow.has_memory() {
            return;
        }
        let (Some(WaitReason::Unfinished(unfinished)), Some(pool)) =
            (flow.delayed.take(), &self.generation.pool)
        else {
            return;
        };
        let cancelled = Arc::new(AtomicBool::new(false));
        let cancel = CancelOnDrop(Arc::clone(&cancelled));
        flow.delayed = Some(WaitReason::Working(unfinished.frame.len(), cancel));
        self.counters.filter_tasks += 1;
        pool.submit(FilterTask {
            pair: pair.id,
            direction,
            address: pair.peer.ip(),
            filters: Arc::clone(&pair.cluster.config.filters),
            unfinished,
            cancelled,
            reply: self.sender.clone(),
        });
    }

    /// Forwards a frame whose filter work is done.
    pub(super) fn filtered(
        &mut self,
        pair: &mut ConnectionPair,
        done: FinishedFrame,
    ) -> Result<(), PairCloseReason> {
        pair.flow(done.direction).delayed = None;
        let fault = match done.direction {
            Direction::Produce => StreamError::Client,
            Direction::Fetch => StreamError::Broker,
        };
        let (result, frame) = done.outcome.map_err(fault)?;
        for code in errors(&result) {
            pair.in_flight.count_error(PRODUCE, code);
        }
        if let Some(entry) = done.request.and_then(|header| header.entry(&result)) {
            pair.in_flight.push_deferred(entry);
        }
        if result.output != FrameOutput::Nothing {
            let time = result.delay;
            self.delay(
                pair,
                done.direction,
                Some(DelayedFrame::Delayed { time, frame }),
            );
        } else {
            pair.count_held(done.direction);
        }
        self.release_delayed(pair)?;
        // A response of the proxy itself, unless a delayed response comes before it.
        self.segments.clear();
        if pair.fetch.delayed.is_none() {
            pair.responses
                .push_ready(&mut pair.in_flight, &mut self.segments);
        }
        self.send_down(pair, &[])
    }

    /// Records that a request is partly received.
    pub(super) fn watch_frame(&mut self, pair: &mut ConnectionPair) {
        let known = pair.slow_frame.is_some_and(|it| it.counted == pair.counted);
        if !known {
            let until_ms = self.now_ms() + self.generation.limits.frame_ms;
            pair.slow_frame = Some(SlowFrame {
                counted: pair.counted,
                bytes: pair.request_bytes,
                until_ms,
                paused: false,
            });
            self.arm(pair, until_ms);
        }
    }

    /// Checks the waiting frames. Returns the time of the next check.
    pub(super) fn check_delayed(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<u64, PairCloseReason> {
        let now_ms = self.now_ms();
        let mut next_ms = self.check_slow_frame(pair)?;
        let is_short = self.shared.memory.is_short();
        for flow in [&mut pair.produce, &mut pair.fetch] {
            // The pair is forwarded after this check, which sends frames that are due.
            if let Some(at_ms) = flow.delayed.as_ref().and_then(WaitReason::until_ms) {
                next_ms = next_ms.min(at_ms.max(now_ms + 1));
            }
            let Some(claim) = &mut flow.memory else {
                continue;
            };
            let Some(since_ms) = claim.granted_since_ms(now_ms) else {
                next_ms = next_ms.min(now_ms + CLAIM_CHECK_MS);
                continue;
            };
            let until_ms = since_ms + self.generation.limits.frame_ms;
            if is_short && now_ms >= until_ms {
                return Err(PairCloseReason::Timeout(
                    "kept memory too long while others waited",
                ));
            }
            next_ms = next_ms.min(until_ms.max(now_ms + GRANT_CHECK_MS));
        }
        Ok(next_ms)
    }

    /// Returns an error if a partly received request made no progress, unless the proxy did not
    /// read.
    fn check_slow_frame(&mut self, pair: &mut ConnectionPair) -> Result<u64, PairCloseReason> {
        let now_ms = self.now_ms();
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
            return Err(PairCloseReason::Timeout("no progress of a request"));
        }
        let until_ms = now_ms + self.generation.limits.frame_ms;
        pair.slow_frame = Some(SlowFrame {
            bytes: pair.request_bytes,
            until_ms,
            paused,
            ..slow
        });
        Ok(until_ms)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2)
}

/// Frames up to this size need no claim. Every connection may buffer this much.
const UNCLAIMED_BYTES: usize = 64 * 1024;
/// Interval between checks of a waiting claim, in milliseconds.
const CLAIM_CHECK_MS: u64 = 20;
/// Interval between checks of a claim granted long ago, in milliseconds.
const GRANT_CHECK_MS: u64 = 250;
/// Bytes of a frame that must arrive within the frame timeout.
const FRAME_PROGRESS_BYTES: u64 = 4 * 1024;
