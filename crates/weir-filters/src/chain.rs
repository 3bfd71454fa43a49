//! The filter chain of a cluster.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::config::ScopedFilter;
use crate::{Direction, Filter, FilterConfig, FilterError, TopicNames};

/// The filters of one cluster in configuration order. Each sees the output of the previous one, in
/// both directions.
#[derive(Debug, Default)]
pub struct FilterChain {
    all: Vec<ScopedFilter>,
    /// The names by which filters select topics that frames contain by id.
    pub names: Arc<TopicNames>,
}

pub(crate) type TopicFilters<'a> = SmallVec<[&'a dyn Filter; 4]>;

impl FilterChain {
    /// Creates the filters and checks their configuration.
    pub fn new(configs: &[FilterConfig]) -> Result<Self, FilterError> {
        let all = configs.iter().map(FilterConfig::build);
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
            names: Arc::default(),
        })
    }

    /// Returns `true` if there are no filters.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns `true` if a filter applies to this direction. If not, frames need not be buffered.
    pub fn wants(&self, direction: Direction) -> bool {
        self.all.iter().any(|filter| filter.is_on(direction))
    }

    /// Returns the highest supported version of an API; `Some(-1)`: none, `None`: any.
    ///
    /// Share groups would bypass fetch filters, so their APIs are not supported with such filters.
    pub fn version_max(&self, api_key: i16) -> Option<i16> {
        match api_key {
            SHARE_GROUP_HEARTBEAT | SHARE_FETCH | SHARE_ACKNOWLEDGE
                if self.wants(Direction::Fetch) =>
            {
                Some(-1)
            }
            _ => None,
        }
    }

    /// Returns a text for each filter, in their order.
    pub fn describe(&self) -> Vec<String> {
        self.all.iter().map(ScopedFilter::describe).collect()
    }

    /// Returns the filters for the records of a topic, and the delay of its frames.
    pub(crate) fn chain(&self, topic: &str, direction: Direction) -> (TopicFilters<'_>, Duration) {
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

const SHARE_GROUP_HEARTBEAT: i16 = 76;
const SHARE_FETCH: i16 = 78;
const SHARE_ACKNOWLEDGE: i16 = 79;
