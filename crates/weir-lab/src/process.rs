//! Processes of this machine, identified by id and start time.

use std::thread;
use std::time::{Duration, Instant};

use procfs::process::{LimitValue, Process, Stat};
pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use serde::{Deserialize, Serialize};

/// A process since the last boot. A later process with the same id has another start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    /// Clock ticks from boot to the start of the process.
    pub(crate) start_ticks: u64,
}

impl ProcessIdentity {
    /// Returns the process that currently has this id.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let start_ticks = stat(pid)?.starttime;
        Some(Self { pid, start_ticks })
    }

    /// Returns `true` if this process is running. A process that waits to be reaped is not.
    pub(crate) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| {
            // The first thread may end before the others, which still use files and ports.
            let ended = matches!(stat.state, 'Z' | 'X') && stat.num_threads <= 1;
            stat.starttime == self.start_ticks && !ended
        })
    }

    /// Waits until the process has ended. Returns `false` if `deadline` passes first.
    pub(crate) fn wait_exited(&self, deadline: Instant) -> bool {
        while self.is_alive() {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
        true
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if !self.is_alive() {
            return;
        }
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            if let Err(error) = kill_process(pid, signal) {
                tracing::debug!(pid = self.pid, %error, "signal not delivered");
            }
        }
    }
}

/// Returns the id of the current boot. Start times of other boots cannot be compared.
pub(crate) fn boot_id() -> String {
    procfs::sys::kernel::random::boot_id().unwrap_or_default()
}

/// Returns the soft limit of open files of a process.
pub(crate) fn open_files_max(pid: u32) -> Option<u64> {
    match process(pid)?.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(files) => Some(files),
        LimitValue::Unlimited => Some(u64::MAX),
    }
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

fn stat(pid: u32) -> Option<Stat> {
    process(pid)?.stat().ok()
}

/// Interval at which conditions of other processes are polled.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn reused_pid_is_another_process() {
        let own = ProcessIdentity::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        let other = ProcessIdentity {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert!(!other.is_alive());
        other.signal(Signal::KILL);
    }

    #[test]
    fn unreaped_process_counts_as_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        identity.signal(Signal::TERM);
        assert!(identity.wait_exited(Instant::now() + Duration::from_secs(10)));
        child.wait().unwrap();
    }

    #[test]
    fn open_files_limit_is_readable() {
        assert!(open_files_max(std::process::id()).unwrap() > 0);
    }
}
