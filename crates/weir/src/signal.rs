//! Signal handlers that set flags, which long-running commands poll, or wake them up.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

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

/// Ends the process at the first Ctrl-C or SIGTERM. Without a handler, the first process of a
/// container ignores them.
pub(crate) fn exit_on_signal() -> std::io::Result<()> {
    let is_due = Arc::new(AtomicBool::new(true));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&is_due))?;
    }
    Ok(())
}

pub(crate) fn reload_flag() -> std::io::Result<Arc<AtomicBool>> {
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload))?;
    Ok(reload)
}

/// A pipe to which the handlers of signals write, for a command that has nothing else to wait for.
#[derive(Debug)]
pub(crate) struct SignalPipe {
    reader: UnixStream,
    writer: UnixStream,
}

impl SignalPipe {
    /// Opens the pipe for Ctrl-C and SIGTERM. Their flags must be registered already: handlers run
    /// in this order.
    pub(crate) fn open() -> std::io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        let pipe = Self { reader, writer };
        pipe.add(SIGINT)?;
        pipe.add(SIGTERM)?;
        Ok(pipe)
    }

    /// Adds SIGHUP, whose flag must be registered already.
    pub(crate) fn add_reload(&self) -> std::io::Result<()> {
        self.add(SIGHUP)
    }

    fn add(&self, signal: i32) -> std::io::Result<()> {
        signal_hook::low_level::pipe::register(signal, self.writer.try_clone()?)?;
        Ok(())
    }

    /// Returns the end to which a thread writes to end the wait.
    pub(crate) fn waker(&self) -> std::io::Result<Arc<UnixStream>> {
        self.writer.try_clone().map(Arc::new)
    }

    /// Waits for a signal, at most for `timeout`, which must not be zero.
    pub(crate) fn wait(&self, timeout: Duration) -> std::io::Result<()> {
        self.reader.set_read_timeout(Some(timeout))?;
        // A timeout is an error, and the caller checks the flags in any case.
        let _ = (&self.reader).read(&mut [0; 16]);
        Ok(())
    }
}
