//! The filter `delay` holds back frames of its topics, to test how clients handle it.

use std::time::Duration;

use serde::Deserialize;

use crate::{BuildResult, Filter, InvalidKey, RecordEdit, RecordRejection};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct DelayConfig {
    /// Delay of a frame in milliseconds. Later frames of the connection wait, too.
    delay_ms: u64,
}

impl DelayConfig {
    pub(crate) fn build(self) -> BuildResult {
        if !(1..=DELAY_MS_MAX).contains(&self.delay_ms) {
            let remedy = "use 1 to 600000 milliseconds";
            return Err(InvalidKey("delay_ms", self.delay_ms.to_string(), remedy));
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
