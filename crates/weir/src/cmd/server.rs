//! Life cycle of a server command, from start to shutdown, and limits of its process.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use serde_json::Value;

use crate::exit::{self, Exit, Failure, OrExit as _};
use crate::signal::{self, SignalPipe};

/// Interval at which a server is checked before it is ready. Afterwards only signals matter.
const STARTUP_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for a usual start, after which a server that is not ready logs the reasons.
const FIRST_ERROR_LOG_DELAY: Duration = Duration::from_secs(2);
/// Interval at which a server that is not ready logs the reasons.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A running gateway or proxy.
pub(super) trait Server {
    fn is_ready(&self) -> bool;
    /// Is called once, when the server is ready, before the ready file is written.
    fn on_ready(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Logs the reasons why the server is not ready; nothing if it is.
    fn log_unready(&self);
    /// Reads certificates again and opens logs again. Logs errors and then keeps the current ones.
    fn reload_files(&self);
    /// Returns the content of the ready file except the process id.
    fn ready_file(&self) -> Value;
    /// Shuts down gracefully. Returns the names of threads that did not end in time.
    fn shut_down(self) -> Vec<String>;
}

/// Stops a server from another thread.
#[derive(Debug, Clone)]
pub(super) struct Stopper {
    stop: Arc<AtomicBool>,
    wake: Arc<UnixStream>,
}

impl Stopper {
    /// Lets the server shut down.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // The server looks at the flag anyway, only later.
        let _ = (&*self.wake).write(&[0]);
    }
}

/// Signals received so far.
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    arrived: SignalPipe,
}

impl Signals {
    /// Registers Ctrl-C and SIGTERM. Must be called before anything slow.
    pub(super) fn register() -> Result<Self, Failure> {
        let stop = signal::stop_flag().or_exit(Exit::Tool)?;
        Ok(Self {
            stop,
            reload: Arc::default(),
            arrived: SignalPipe::open().or_exit(Exit::Tool)?,
        })
    }

    /// Returns a handle with which another thread stops the server, as SIGTERM does.
    pub(super) fn stopper(&self) -> Result<Stopper, Failure> {
        Ok(Stopper {
            stop: Arc::clone(&self.stop),
            wake: self.arrived.waker().or_exit(Exit::Tool)?,
        })
    }

    /// Registers SIGHUP if there are files to reload. Otherwise SIGHUP, which a closing terminal
    /// sends, ends the server as usual.
    pub(super) fn reload_if(&mut self, has_files: bool) -> Result<(), Failure> {
        if has_files {
            let reload = signal::reload_flag();
            self.reload = reload.or_exit(Exit::Tool)?;
            self.arrived.add_reload().or_exit(Exit::Tool)?;
        }
        Ok(())
    }
}

/// Runs until a signal stops the server. Logs when it becomes ready, or why it does not.
pub(super) fn run(
    server: impl Server,
    signals: &Signals,
    ready_file: Option<&Path>,
) -> Result<Exit, Failure> {
    let mut was_ready = false;
    let mut errors_due = Instant::now() + FIRST_ERROR_LOG_DELAY;
    while !signals.stop.load(Ordering::Relaxed) {
        if !was_ready && server.is_ready() {
            was_ready = true;
            tracing::info!("ready");
            server.on_ready()?;
            if let Some(path) = ready_file {
                write_ready_file(path, server.ready_file())?;
            }
        }
        if signals.reload.swap(false, Ordering::Relaxed) {
            server.reload_files();
        }
        if Instant::now() >= errors_due {
            errors_due = Instant::now() + ERROR_LOG_INTERVAL;
            server.log_unready();
        }
        let pause = match was_ready {
            true => ERROR_LOG_INTERVAL,
            false => STARTUP_POLL_INTERVAL,
        };
        signals.arrived.wait(pause).or_exit(Exit::Tool)?;
    }
    tracing::info!("shutting down");
    Ok(exit::after_shutdown(&server.shut_down()))
}

/// Writes the ready file atomically, so that a process that waits for it can read it immediately.
fn write_ready_file(path: &Path, mut ready: Value) -> Result<(), Failure> {
    ready["pid"] = std::process::id().into();
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, ready.to_string())
        .and_then(|()| std::fs::rename(&temporary, path))
        .with_context(|| format!("--ready-file \"{}\": cannot write file", path.display()))
        .or_exit(Exit::Usage)
}

/// Raises the soft limit of open file descriptors to the hard limit and returns the new limit.
/// Every client connection needs one.
///
/// Child processes started afterwards inherit it.
pub(super) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "file descriptor limit not raised");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Disables transparent huge pages, with which a few kilobytes per thread occupy 2 MiB, and
/// restarts the process with `exec`.
///
/// The restart is needed because existing huge pages stay, and the first allocations happen before
/// `main`. The setting survives `exec`, so the restarted process returns from here immediately.
pub(super) fn disable_huge_pages() {
    // A kernel without huge pages returns an error; then nothing needs to be disabled.
    let is_new = transparent_huge_pages_are_disabled().is_ok_and(|disabled| !disabled);
    let Ok(own) = std::env::current_exe() else {
        return;
    };
    if !is_new || disable_transparent_huge_pages(true).is_err() {
        return;
    }
    let mut args = std::env::args_os();
    let mut command = Command::new(own);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    let error = command.args(args).exec();
    tracing::debug!(%error, "restart without huge pages failed, continuing with huge pages");
}
