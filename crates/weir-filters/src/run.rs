//! Runs a filter chain on whole frames.

use weir_wire::WireError;

use crate::Direction;
use crate::buffers::FilterBuffers;
use crate::chain::FilterChain;
use crate::work::{FilterResult, FilterWork, WorkProgress};

impl FilterChain {
    /// Filters a frame immediately if the work is small enough for an event loop. Otherwise returns
    /// `Ok(Err(_))` with the remaining work for `FilterWork::advance`.
    ///
    /// # Errors
    /// [`WireError`] if the frame does not match its version.
    pub fn filter_now(
        &self,
        direction: Direction,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        buffers: &mut FilterBuffers,
    ) -> Result<Result<FilterResult, Box<FilterWork>>, WireError> {
        let mut work = FilterWork::new(direction, body_at, version)?;
        if frame.len() > AT_ONCE_FRAME_BYTES {
            return Ok(Err(Box::new(work)));
        }
        work.borrow_from(buffers);
        buffers.allow_small_work();
        let step = work.advance(self, frame, buffers);
        buffers.count_small_work();
        match step? {
            WorkProgress::Done => Ok(Ok(work.finish(frame, buffers))),
            WorkProgress::Paused => Ok(Err(Box::new(work))),
        }
    }
}

/// Maximum size of frames filtered on an event loop.
const AT_ONCE_FRAME_BYTES: usize = 256 << 10;

/// Entry points for tests, which filter a whole frame without a limit on the work.
#[cfg(any(test, fuzzing))]
impl FilterChain {
    /// Filters a produce request. `frame` includes the size prefix; `body_at` is the position of
    /// its body.
    ///
    /// # Errors
    /// [`WireError`] if the frame is not a produce request.
    pub fn produce(
        &self,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        buffers: &mut FilterBuffers,
    ) -> Result<FilterResult, WireError> {
        self.all_of(Direction::Produce, frame, body_at, version, buffers)
    }

    /// Filters a fetch response. `frame` includes the size prefix; `body_at` is the position of its
    /// body. No partition is rejected: a batch that cannot be decoded is replaced by an error code.
    ///
    /// # Errors
    /// [`WireError`] if the frame is not a fetch response.
    pub fn fetch(
        &self,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        buffers: &mut FilterBuffers,
    ) -> Result<FilterResult, WireError> {
        self.all_of(Direction::Fetch, frame, body_at, version, buffers)
    }

    fn all_of(
        &self,
        direction: Direction,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        buffers: &mut FilterBuffers,
    ) -> Result<FilterResult, WireError> {
        let mut work = FilterWork::new(direction, body_at, version)?;
        work.borrow_from(buffers);
        buffers.set_meter(crate::buffers::WorkMeter::unlimited());
        while work.advance(self, frame, buffers)? == WorkProgress::Paused {}
        Ok(work.finish(frame, buffers))
    }
}
