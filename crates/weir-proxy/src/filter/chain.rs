//! The filters of a cluster.

use std::time::Duration;

use smallvec::SmallVec;
use weir_kafka::wire::WireError;
use weir_kafka::wire::layout::{FETCH_VERSION_MAX, PRODUCE_VERSION_MAX};

use super::buffers::{FilterBuffers, MemoryMeter};
use super::config::Scoped;
use super::rejected::RejectedPartitions;
use super::work::{BudgetStep, FilterBudget};
use super::{Direction, Filter, FilterConfig, FilterError};

/// The filters of one cluster, in the order they were written: each sees what the one before has left,
/// in both directions.
#[derive(Debug, Default)]
pub struct FilterChain {
    all: Vec<Scoped>,
}

/// What is to become of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterResult {
    /// Which bytes go on.
    pub pass: FrameOutput,
    /// How long to hold them before, and all that comes behind them.
    pub hold: Duration,
    /// Partitions that do not go on, whose producer waits for an answer.
    pub rejected: Option<RejectedPartitions>,
}

/// Which bytes of a frame go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameOutput {
    /// The frame, which may have been changed where it lies.
    InPlace,
    /// [`FilterBuffers::frame`].
    Rebuilt,
    /// None: nothing is left of it.
    Nothing,
}

/// Filters that see the records of one topic.
pub(super) type TopicFilters<'a> = SmallVec<[&'a dyn Filter; 4]>;

impl FilterChain {
    /// Checks the settings of all filters.
    ///
    /// # Errors
    /// [`FilterError`] with filter, key, value and remedy.
    pub fn new(settings: &[FilterConfig]) -> Result<Self, FilterError> {
        let all = settings.iter().map(FilterConfig::build);
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
        })
    }

    /// Whether any filter looks at records that travel this way. If not, frames need not be held.
    #[must_use]
    pub fn wants(&self, direction: Direction) -> bool {
        self.all.iter().any(|filter| filter.is_on(direction))
    }

    /// The newest version of an API to offer; `Some(-1)`: none; `None`: any.
    ///
    /// From these versions on topics have ids in place of names. Share groups have always had ids, and
    /// would get what filters on fetch are meant to change.
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

    /// One line per filter, for people.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        self.all.iter().map(Scoped::describe).collect()
    }

    /// Takes a produce request through the filters. `frame` starts with its size; `body_at` is where its
    /// body starts.
    ///
    /// # Errors
    /// [`WireError`] if it is no such request, or of a version with topic ids.
    pub fn produce(
        &self,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        workspace: &mut FilterBuffers,
    ) -> Result<FilterResult, WireError> {
        self.all_of(Direction::Produce, frame, body_at, version, workspace)
    }

    /// Takes an answer to Fetch through the filters. `frame` starts with its size; `body_at` is where its
    /// body starts. Nothing is rejected: what can not be opened is replaced by an error.
    ///
    /// # Errors
    /// [`WireError`] if it is no such answer, or of a version with topic ids.
    pub fn fetch(
        &self,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        workspace: &mut FilterBuffers,
    ) -> Result<FilterResult, WireError> {
        self.all_of(Direction::Fetch, frame, body_at, version, workspace)
    }

    fn all_of(
        &self,
        direction: Direction,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        workspace: &mut FilterBuffers,
    ) -> Result<FilterResult, WireError> {
        let mut work = FilterBudget::new(direction, body_at, version)?;
        work.borrow_from(workspace);
        workspace.allow(MemoryMeter::unlimited());
        while work.advance(self, frame, workspace)? == BudgetStep::More {}
        Ok(work.finish(frame, workspace))
    }

    /// Takes a frame through the filters if that costs an event loop little; else returns what is
    /// left to do, for [`Work::advance`].
    ///
    /// # Errors
    /// As [`Self::produce`] and [`Self::fetch`].
    pub fn at_once(
        &self,
        direction: Direction,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        workspace: &mut FilterBuffers,
    ) -> Result<Result<FilterResult, Box<FilterBudget>>, WireError> {
        let mut work = FilterBudget::new(direction, body_at, version)?;
        if frame.len() > AT_ONCE_FRAME_BYTES {
            return Ok(Err(Box::new(work)));
        }
        work.borrow_from(workspace);
        workspace.allow_at_once();
        let step = work.advance(self, frame, workspace);
        workspace.count_at_once();
        match step? {
            BudgetStep::Done => Ok(Ok(work.finish(frame, workspace))),
            BudgetStep::More => Ok(Err(Box::new(work))),
        }
    }

    /// The filters that see a topic's records, and how long its frames are held.
    pub(super) fn chain(&self, topic: &str, direction: Direction) -> (TopicFilters<'_>, Duration) {
        let mut chain = TopicFilters::new();
        let mut hold = Duration::ZERO;
        for scoped in &self.all {
            if scoped.takes(topic, direction) {
                hold += scoped.filter.hold();
                if scoped.filter.reads_records() {
                    chain.push(&*scoped.filter);
                }
            }
        }
        (chain, hold)
    }
}

/// Larger frames are not even looked at on an event loop.
const AT_ONCE_FRAME_BYTES: usize = 256 << 10;
const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const SHARE_GROUP_HEARTBEAT: i16 = 76;
const SHARE_FETCH: i16 = 78;
const SHARE_ACKNOWLEDGE: i16 = 79;
