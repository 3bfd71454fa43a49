//! Event loop of the lean consumers.

use std::time::Duration;

use crate::error::LoadError;

/// Creates the event loop, which runs in the calling thread.
pub(super) fn event_loop() -> Result<tokio::runtime::Runtime, LoadError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|reason| LoadError::System {
            what: "starting the event loop of the consumers",
            reason,
        })
}

/// Interval at which consumers handle commands and report.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);
