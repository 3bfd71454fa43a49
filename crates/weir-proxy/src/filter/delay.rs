//! The filter `delay` holds back frames of its topics, to test how clients handle it.

use std::time::Duration;

use serde::Deserialize;

use super::scope::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "delay";

/// Configuration of the filter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayConfig {
    /// Topic names; `*` matches any characters.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Directions, by default `produce`.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// Delay of a frame in milliseconds. Later frames of the connection wait, too.
    pub delay_ms: u64,
}

impl DelayConfig {
    pub(super) fn build(&self) -> Result<Box<dyn Filter>, FilterError> {
        if !(1..=DELAY_MS_MAX).contains(&self.delay_ms) {
            return Err(FilterError {
                filter: NAME,
                key: "delay_ms",
                value: self.delay_ms.to_string(),
                remedy: "use 1 to 600000 milliseconds",
            });
        }
        let delay = Duration::from_millis(self.delay_ms);
        Ok(Box::new(Delay { delay }))
    }
}

#[derive(Debug)]
struct Delay {
    delay: Duration,
}

impl Filter for Delay {
    fn record(&self, _: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        Ok(())
    }

    fn reads_records(&self) -> bool {
        false
    }

    fn delay(&self) -> Duration {
        self.delay
    }
}

const DELAY_MS_MAX: u64 = 600_000;
