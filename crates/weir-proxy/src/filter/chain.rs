//! The filter chain of a cluster.

use std::time::Duration;

use smallvec::SmallVec;
use weir_kafka::wire::WireError;
use weir_kafka::wire::layout::{FETCH_VERSION_MAX, PRODUCE_VERSION_MAX};

use super::buffers::{FilterBuffers, MemoryMeter};
use super::config::ScopedFilter;
use super::rejected::RejectedPartitions;
use super::work::{BudgetStep, FilterBudget};
use super::{Direction, Filter, FilterConfig, FilterError};

/// The filters of one cluster in configuration order. Each sees the output of the previous one, in
/// both directions.
#[derive(Debug, Default)]
pub struct FilterChain {
    all: Vec<ScopedFilter>,
}

/// The result of filtering a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterResult {
    /// Bytes to forward.
    pub output: FrameOutput,
    /// Delay of the frame and everything after it.
    pub delay: Duration,
    /// Partitions that are not forwarded and whose producer expects a response.
    pub rejected: Option<RejectedPartitions>,
}

/// The bytes of a frame to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameOutput {
    /// The frame, possibly edited in place.
    InPlace,
    /// The frame in [`FilterBuffers::frame`].
    Rebuilt,
    /// Nothing: no partition is left.
    Nothing,
}

/// Filters for the records of one topic.
pub(super) type TopicFilters<'a> = SmallVec<[&'a dyn Filter; 4]>;

impl FilterChain {
    /// Creates the filters and checks their configuration.
    ///
    /// # Errors
    /// [`FilterError`] with filter, key, value and remedy.
    pub fn new(settings: &[FilterConfig]) -> Result<Self, FilterError> {
        let all = settings.iter().map(FilterConfig::build);
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
        })
    }

    /// Returns `true` if a filter applies to this direction. If not, frames need not be buffered.
    #[must_use]
    pub fn wants(&self, direction: Direction) -> bool {
        self.all.iter().any(|filter| filter.is_on(direction))
    }

    /// Returns the highest supported version of an API; `Some(-1)`: none, `None`: any.
    ///
    /// Later versions have topic ids instead of names. Share groups always use topic ids and would
    /// bypass fetch filters, so their APIs are not supported with such filters.
    #[must_use]
    pub fn version_max(&self, api_key: i16) -> Option<i16> {
        match api_key {
            PRODUCE if self.wants(Direction::Produce) => Some(PRODUCE_VERSION_MAX),
            FETCH if self.wants(Direction::Fetch) => Some(FETCH_VERSION_MAX),
            SHARE_GROUP_HEARTBEAT | SHARE_FETCH | SHARE_ACKNOWLEDGE
                if self.wants(Direction::Fetch) =>
            {
                Some(-1)
            }
            _ => None,
        }
    }

    /// Returns one human-readable line per filter.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        self.all.iter().map(ScopedFilter::describe).collect()
    }

    /// Filters a produce request. `frame` includes the size prefix; `body_at` is the position of
    /// its body.
    ///
    /// # Errors
    /// [`WireError`] if the frame is not a produce request, or has a version with topic ids.
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
    /// [`WireError`] if the frame is not a fetch response, or has a version with topic ids.
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
        let mut work = FilterBudget::new(direction, body_at, version)?;
        work.borrow_from(buffers);
        buffers.allow(MemoryMeter::unlimited());
        while work.advance(self, frame, buffers)? == BudgetStep::Paused {}
        Ok(work.finish(frame, buffers))
    }

    /// Filters a frame if that costs an event loop little. Otherwise returns the remaining work for
    /// [`FilterBudget::advance`].
    ///
    /// # Errors
    /// As [`Self::produce`] and [`Self::fetch`].
    pub fn at_once(
        &self,
        direction: Direction,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        buffers: &mut FilterBuffers,
    ) -> Result<Result<FilterResult, Box<FilterBudget>>, WireError> {
        let mut work = FilterBudget::new(direction, body_at, version)?;
        if frame.len() > AT_ONCE_FRAME_BYTES {
            return Ok(Err(Box::new(work)));
        }
        work.borrow_from(buffers);
        buffers.allow_at_once();
        let step = work.advance(self, frame, buffers);
        buffers.count_at_once();
        match step? {
            BudgetStep::Done => Ok(Ok(work.finish(frame, buffers))),
            BudgetStep::Paused => Ok(Err(Box::new(work))),
        }
    }

    /// Returns the filters for the records of a topic, and the delay of its frames.
    pub(super) fn chain(&self, topic: &str, direction: Direction) -> (TopicFilters<'_>, Duration) {
        let mut chain = TopicFilters::new();
        let mut delay = Duration::ZERO;
        for scoped in &self.all {
            if scoped.takes(topic, direction) {
                delay += scoped.filter.delay();
                if scoped.filter.reads_records() {
                    chain.push(&*scoped.filter);
                }
            }
        }
        (chain, delay)
    }
}

/// Maximum size of frames filtered on an event loop.
const AT_ONCE_FRAME_BYTES: usize = 256 << 10;
const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const SHARE_GROUP_HEARTBEAT: i16 = 76;
const SHARE_FETCH: i16 = 78;
const SHARE_ACKNOWLEDGE: i16 = 79;
