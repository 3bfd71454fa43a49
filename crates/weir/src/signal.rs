//! Ctrl-C and SIGTERM as one flag that long commands look at.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Registers Ctrl-C and SIGTERM: the first sets the returned flag, so that a command ends in
/// order; a second one ends the process at once with code 130.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the conditional shutdown must see the flag before this signal sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Registers SIGHUP: each sets the returned flag, and the process goes on.
pub(crate) fn reload_flag() -> std::io::Result<Arc<AtomicBool>> {
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload))?;
    Ok(reload)
}
