//! Frames of a pair that wait: for a delay, for memory, or for filter threads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::delayed::{SlowFrame, WaitReason, has_memory};
use super::events::Finished;
use super::filter_pool::{Cancel, Task};
use super::loop_state::{LoopState, PairCloseReason};
use super::pair::ConnectionPair;
use crate::filter::{Direction, FrameOutput};
use crate::wire::{DelayedFrame, StreamError};

impl LoopState {
    pub(super) fn delay(
        &mut self,
        pair: &mut ConnectionPair,
        direction: Direction,
        delayed: Option<DelayedFrame>,
    ) {
        let reason = delayed.map(|delayed| match delayed {
            DelayedFrame::Delayed { time, frame } => {
                let at_ms = self.now_ms() + millis(time);
                WaitReason::Until(at_ms, frame)
            }
            DelayedFrame::Unfinished(unfinished) => WaitReason::Unfinished(unfinished),
        });
        match direction {
            Direction::Produce => pair.delayed_request = reason,
            Direction::Fetch => pair.delayed_response = reason,
        }
        let all = [&pair.delayed_request, &pair.delayed_response];
        let first = all
            .into_iter()
            .filter_map(|delayed| delayed.as_ref()?.until_ms())
            .min();
        if let Some(at_ms) = first {
            self.arm(pair, at_ms);
        }
        self.claim(pair, direction);
        self.submit(pair, direction);
    }

    /// Claims memory for a buffered frame, unless it is small.
    fn claim(&mut self, pair: &mut ConnectionPair, direction: Direction) {
        let (wanted, delayed, claim) = match direction {
            Direction::Produce => (
                pair.requests.wanted(),
                &pair.delayed_request,
                &mut pair.memory_up,
            ),
            Direction::Fetch => (
                pair.responses.wanted(),
                &pair.delayed_response,
                &mut pair.memory_down,
            ),
        };
        let delayed = delayed.as_ref().map_or(0, WaitReason::bytes);
        let frame = wanted.max(delayed);
        // A rebuilt frame may be as large.
        let bytes = 2 * frame;
        if frame <= UNCLAIMED_BYTES || claim.as_ref().is_some_and(|it| it.bytes() >= bytes) {
            return;
        }
        // Returns the smaller claim of an earlier frame first.
        *claim = None;
        *claim = Some(self.memory.claim(bytes));
        self.arm(pair, self.now_ms() + CLAIM_CHECK_MS);
    }

    /// Returns the memory when no frame is buffered.
    pub(super) fn release_memory(&mut self, pair: &mut ConnectionPair) {
        let up =
            pair.memory_up.is_some() && pair.delayed_request.is_none() && pair.to_up.is_empty();
        if up && pair.requests.wanted() == 0 {
            pair.memory_up = None;
        }
        let down = pair.memory_down.is_some() && pair.delayed_response.is_none();
        if down && pair.to_down.is_empty() && pair.responses.wanted() == 0 {
            pair.memory_down = None;
        }
    }

    /// Hands a frame with unfinished filter work to the filter threads, once it has memory.
    pub(super) fn submit(&mut self, pair: &mut ConnectionPair, direction: Direction) {
        let (delayed, memory) = match direction {
            Direction::Produce => (&mut pair.delayed_request, &pair.memory_up),
            Direction::Fetch => (&mut pair.delayed_response, &pair.memory_down),
        };
        if !matches!(delayed, Some(WaitReason::Unfinished(_))) || !has_memory(memory) {
            return;
        }
        let (Some(WaitReason::Unfinished(unfinished)), Some(pool)) = (delayed.take(), &self.pool)
        else {
            return;
        };
        let cancelled = Arc::new(AtomicBool::new(false));
        let cancel = Cancel(Arc::clone(&cancelled));
        *delayed = Some(WaitReason::Working(unfinished.frame.len(), cancel));
        self.counters.filter_tasks += 1;
        pool.submit(Task {
            pair: pair.id,
            direction,
            address: pair.peer.ip(),
            filters: Arc::clone(&self.clusters[pair.cluster].filters),
            unfinished,
            cancelled,
            reply: self.sender.clone(),
        });
    }

    /// Forwards a frame whose filter work is done.
    pub(super) fn filtered(
        &mut self,
        pair: &mut ConnectionPair,
        done: Finished,
    ) -> Result<(), PairCloseReason> {
        let delayed = match done.direction {
            Direction::Produce => &mut pair.delayed_request,
            Direction::Fetch => &mut pair.delayed_response,
        };
        *delayed = None;
        let fault = match done.direction {
            Direction::Produce => StreamError::Client,
            Direction::Fetch => StreamError::Broker,
        };
        let (result, frame) = done.outcome.map_err(fault)?;
        if let Some(entry) = done.request.and_then(|header| header.entry(&result)) {
            pair.in_flight.push(entry);
        }
        if result.output != FrameOutput::Nothing {
            let time = result.delay;
            self.delay(
                pair,
                done.direction,
                Some(DelayedFrame::Delayed { time, frame }),
            );
        }
        self.release_delayed(pair)?;
        // A response of the proxy itself, unless a delayed response comes before it.
        self.segments.clear();
        if pair.delayed_response.is_none() {
            pair.responses
                .push_ready(&mut pair.in_flight, &mut self.segments);
        }
        self.send_down(pair, &[])
    }

    /// Records that a request is partly received.
    pub(super) fn watch_frame(&mut self, pair: &mut ConnectionPair) {
        let known = pair.slow_frame.is_some_and(|it| it.counted == pair.counted);
        if !known {
            let until_ms = self.now_ms() + self.limits.frame_ms;
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
        for delayed in [&pair.delayed_request, &pair.delayed_response]
            .into_iter()
            .flatten()
        {
            // The pair is forwarded after this check, which sends frames that are due.
            if let Some(at_ms) = delayed.until_ms() {
                next_ms = next_ms.min(at_ms.max(now_ms + 1));
            }
        }
        let is_short = self.memory.is_short();
        for claim in [&mut pair.memory_up, &mut pair.memory_down] {
            let Some(claim) = claim else { continue };
            let Some(since_ms) = claim.granted_since_ms(now_ms) else {
                next_ms = next_ms.min(now_ms + CLAIM_CHECK_MS);
                continue;
            };
            let until_ms = since_ms + self.limits.frame_ms;
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
