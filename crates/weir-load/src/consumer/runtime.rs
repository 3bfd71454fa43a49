//! Event loop of the lean consumers.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use weir_kafka::lean::{self, LeanConfig, LeanReport, LeanSink};

use crate::error::LoadError;

/// Runs lean consumers in this thread and polls them every 20 ms until `Break`. They end on their
/// own only with an error at the start, or after `stop`.
pub(super) fn run_lean<S: LeanSink + 'static>(
    config: LeanConfig,
    sink: &Rc<RefCell<S>>,
    stop: &watch::Sender<bool>,
    mut poll: impl FnMut(&mut S) -> ControlFlow<()>,
) -> Result<LeanReport, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|reason| LoadError::System("starting the event loop of the consumers", reason))?;
    runtime.block_on(async {
        let consumers = lean::run(config, Rc::clone(sink), stop.subscribe());
        tokio::pin!(consumers);
        let mut ticks = interval_at(Instant::now() + POLL_INTERVAL, POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_stopping = false;
        loop {
            tokio::select! {
                outcome = &mut consumers => return Ok(outcome?),
                _ = ticks.tick(), if !is_stopping => {
                    is_stopping = poll(&mut sink.borrow_mut()).is_break();
                }
            }
            if is_stopping {
                // The receiver is closed only if the consumers have ended.
                let _ = stop.send(true);
            }
        }
    })
}

/// Interval at which consumers handle commands and report.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);
