//! The life of a server command, from its start to its shutdown.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::exit::{self, Exit, Failure};
use crate::signal;

/// Interval at which the stop flag and the server are checked before the server is ready.
const STARTUP_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The same interval afterwards. Each check costs as much as a few records.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the reasons are logged why the server is not ready.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A running gateway or proxy.
pub(super) trait Server {
    fn is_ready(&self) -> bool;
    /// Logs what the server waits for.
    fn log_unready(&self);
    fn reload_certificates(&self);
    /// Returns the content of the ready file except the process id.
    fn ready_file(&self) -> Value;
    /// Returns the names of threads that did not end in time.
    fn shut_down(self) -> Vec<String>;
}

/// Flags that signals set.
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Registers Ctrl-C and SIGTERM. Must be called before anything slow.
    pub(super) fn register() -> Result<Self, Failure> {
        let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
        Ok(Self {
            stop,
            reload: Arc::default(),
        })
    }

    /// Registers SIGHUP if there are certificates. Without, SIGHUP of a closed terminal ends the
    /// server as usual.
    pub(super) fn reload_if(&mut self, has_certificates: bool) -> Result<(), Failure> {
        if has_certificates {
            let reload = signal::reload_flag();
            self.reload = reload.map_err(|error| Failure::new(Exit::Instrument, error))?;
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
    let mut errors_logged = Instant::now();
    while !signals.stop.load(Ordering::Relaxed) {
        if !was_ready && server.is_ready() {
            was_ready = true;
            tracing::info!("ready");
            if let Some(path) = ready_file {
                write_ready_file(path, server.ready_file())?;
            }
        }
        if signals.reload.swap(false, Ordering::Relaxed) {
            server.reload_certificates();
        }
        if errors_logged.elapsed() >= ERROR_LOG_INTERVAL {
            errors_logged = Instant::now();
            server.log_unready();
        }
        std::thread::sleep(match was_ready {
            true => POLL_INTERVAL,
            false => STARTUP_POLL_INTERVAL,
        });
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
        .map_err(|error| {
            let path = path.display();
            let text = format!("--ready-file \"{path}\": cannot write file: {error}");
            Failure::new(Exit::Usage, anyhow::anyhow!(text))
        })
}
