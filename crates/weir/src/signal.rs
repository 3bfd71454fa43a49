//! Signal handlers that set flags, which long-running commands poll.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Registers handlers for Ctrl-C and SIGTERM and returns the flag that they set.
///
/// The first signal sets the flag, so that the command shuts down cleanly. A second one ends the
/// process immediately with exit code 130.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The conditional shutdown must run first, before this signal sets the flag.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

pub(crate) fn reload_flag() -> std::io::Result<Arc<AtomicBool>> {
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload))?;
    Ok(reload)
}
