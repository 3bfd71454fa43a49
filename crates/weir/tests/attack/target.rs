//! The process under attack: start, memory and exit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Process, Signal, send_signal};

/// Timeout of the graceful shutdown in the configurations of these tests.
pub(crate) const DRAIN: Duration = Duration::from_secs(1);

/// A ready gateway or proxy.
pub(crate) struct AttackTarget {
    process: Process,
    pub(crate) listen: String,
    pub(crate) admin: String,
}

/// Destinations of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    Discarded,
    /// A pipe that is never read.
    Stalled,
}

impl AttackTarget {
    /// Starts the binary with `args` and waits until its ready file is complete. `descriptors`
    /// limits its file descriptors.
    pub(crate) fn start(args: &[&str], dir: &Path, log: Log, descriptors: u32) -> Self {
        let ready = dir.join("ready.json");
        let _ = fs::remove_file(&ready);
        // A shell lowers the limit, then replaces itself with the process.
        let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(binary());
        command.args(args).arg("--ready-file").arg(&ready);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(match log {
            Log::Discarded => Stdio::null(),
            Log::Stalled => Stdio::piped(),
        });
        let mut process = Process::spawn(&mut command);
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let text = fs::read(&ready).ok();
            if let Some(ready) = text.and_then(|text| serde_json::from_slice::<Value>(&text).ok()) {
                return Self {
                    process,
                    listen: ready["listen"].as_str().expect("an address").to_owned(),
                    admin: ready["admin"].as_str().expect("an address").to_owned(),
                };
            }
            let status = process.try_wait().expect("a child");
            assert!(status.is_none(), "ended before it was ready: {status:?}");
            assert!(Instant::now() < deadline, "not ready in time");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Returns the largest resident memory so far, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, row: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        // A process that has exited has no memory.
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(row));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Returns `true` if the process is running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("a child").is_none()
    }

    /// Sends SIGTERM and returns the time to the exit; `None` after `timeout`.
    pub(crate) fn terminate(mut self, timeout: Duration) -> Option<Duration> {
        let started = Instant::now();
        send_signal(self.process.id(), Signal::TERM);
        while started.elapsed() < timeout {
            if !self.is_running() {
                return Some(started.elapsed());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        None
    }
}

/// Returns the binary under attack.
fn binary() -> PathBuf {
    std::env::var_os("WEIR_ATTACK_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_weir")), PathBuf::from)
}

const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
