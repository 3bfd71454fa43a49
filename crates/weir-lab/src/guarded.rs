//! Processes with a watchdog: starting and stopping them.
//!
//! A process is started by a short `sh` script (see [`WATCHDOG`]), which also starts a watchdog.
//! The watchdog reads from a pipe of this process. If the pipe closes without input, this process
//! has ended, perhaps by SIGKILL, and the watchdog ends the other. Any input ends the watchdog: the
//! process has already ended, or must outlive this one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::diagnose::CONSOLE_LOG;
use crate::error::{LabError, Result};
use crate::process::{ProcessIdentity, Signal};

/// A command to start with a watchdog.
#[derive(Debug)]
pub(crate) struct GuardedCommand<'a> {
    /// Program and arguments.
    pub(crate) command: &'a [String],
    pub(crate) working_dir: &'a Path,
    /// Directory for the output of the process.
    pub(crate) logs: &'a Path,
    /// Directory that the watchdog removes after it has ended the process.
    pub(crate) temporary_dir: Option<&'a Path>,
}

/// Starts a process and returns as soon as it exists. `name` is used in errors.
pub(crate) fn spawn(name: &str, guarded: &GuardedCommand<'_>) -> Result<GuardedProcess> {
    let failed = |error: io::Error| LabError::io(format!("start {name}"), error);
    fs::create_dir_all(guarded.logs).map_err(failed)?;
    let console = File::options()
        .create(true)
        .append(true)
        .open(guarded.logs.join(CONSOLE_LOG))
        .map_err(failed)?;
    let temporary_dir = guarded.temporary_dir.map(Path::as_os_str);
    let mut child = Command::new("sh")
        .args(["-c", WATCHDOG, "weir-lab-guard"])
        .arg(temporary_dir.unwrap_or_default())
        .args(guarded.command)
        .current_dir(guarded.working_dir)
        .stdin(Stdio::piped())
        .stdout(console.try_clone().map_err(failed)?)
        .stderr(console)
        // Not in the process group of the terminal: Ctrl-C goes to the command, which stops the
        // processes.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    // An ended child keeps its entry in /proc until it is reaped.
    let identity = ProcessIdentity::of(child.id())
        .ok_or_else(|| failed(io::Error::other("process not found in /proc")))?;
    Ok(GuardedProcess {
        identity,
        watchdog: child.stdin.take(),
        child: Some(child),
    })
}

/// A process of a lab, started by this process or by another one.
#[derive(Debug)]
pub(crate) struct GuardedProcess {
    pub(crate) identity: ProcessIdentity,
    /// Handle for reaping, if this process started it.
    child: Option<Child>,
    watchdog: Option<ChildStdin>,
}

impl GuardedProcess {
    /// Creates a handle of a process that another process started.
    pub(crate) fn found(identity: ProcessIdentity) -> Self {
        Self {
            identity,
            child: None,
            watchdog: None,
        }
    }

    /// Returns a description of the exit status if the process has ended.
    pub(crate) fn exit_status(&mut self) -> Option<String> {
        if let Some(child) = &mut self.child {
            return match child.try_wait() {
                Ok(status) => status.map(|status| status.to_string()),
                Err(error) => Some(error.to_string()),
            };
        }
        (!self.identity.is_alive()).then(|| "exited".to_owned())
    }

    /// Ends the watchdog, so that the process outlives this process.
    pub(crate) fn release(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            // Fails only if the watchdog has already ended.
            let _ = watchdog.write_all(b"release\n");
        }
    }

    /// Stops the process: SIGTERM, and SIGKILL after `timeout`. `name` is used in errors.
    pub(crate) fn stop(&mut self, name: &str, timeout: Duration) -> Result<()> {
        self.identity.signal(Signal::TERM);
        match self.wait_or_kill(Instant::now() + timeout) {
            true => Ok(()),
            false => Err(LabError::StillRunning(name.to_owned(), self.identity.pid)),
        }
    }

    /// Waits until `deadline` for the exit, then kills the process.
    ///
    /// Returns `false` if the process runs even after that.
    pub(crate) fn wait_or_kill(&mut self, deadline: Instant) -> bool {
        if !self.identity.wait_exited(deadline) {
            self.identity.signal(Signal::KILL);
            if !self.identity.wait_exited(Instant::now() + KILL_TIMEOUT) {
                return false;
            }
        }
        self.release();
        if let Some(mut child) = self.child.take() {
            // The process has ended; this only reaps it.
            let _ = child.wait();
        }
        true
    }
}

/// Script that starts the watchdog and replaces itself with the command in `$2...`.
///
/// It raises the limit of open files to the maximum and ignores SIGHUP. `$1` is a directory that
/// the watchdog removes at the end, or empty. The double fork leaves no unreaped child to the JVM.
const WATCHDOG: &str = r#"
trap '' HUP
ulimit -S -n "$(ulimit -H -n)"
temporary_dir=$1
shift
broker=$$
started=$(cut -d' ' -f22 "/proc/$broker/stat")
is_running() { [ "$(cut -d' ' -f22 "/proc/$broker/stat" 2>/dev/null)" = "$started" ]; }
exec 3<&0 </dev/null
(
  (
    read -r word <&3 && exit
    is_running && kill -TERM "$broker"
    tries=0
    while is_running && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    is_running && kill -KILL "$broker"
    [ -n "$temporary_dir" ] && rm -rf -- "$temporary_dir"
  ) >/dev/null 2>&1 &
)
exec "$@" 3<&-
"#;

const KILL_TIMEOUT: Duration = Duration::from_secs(10);
