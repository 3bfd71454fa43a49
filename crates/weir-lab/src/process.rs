//! Processes of this machine, identified by id and start time.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
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
        let start_ticks = stat(pid)?.start_ticks;
        Some(Self { pid, start_ticks })
    }

    /// Returns `true` if this process is running. A process that waits to be reaped is not.
    pub(crate) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| {
            // The first thread may end before the others, which still use files and ports.
            let ended = "ZX".contains(stat.state) && stat.threads <= 1;
            stat.start_ticks == self.start_ticks && !ended
        })
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
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

    fn signal(&self, signal: Signal) {
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
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| String::new(), |id| id.trim().to_owned())
}

/// Returns the soft limit of open files of a process.
pub(crate) fn open_files_max(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_ascii_whitespace().next()?;
    Some(soft.parse().unwrap_or(u64::MAX))
}

/// Values of `/proc/<pid>/stat`.
struct Stat {
    state: char,
    threads: u32,
    start_ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain spaces and parentheses; the last one closes it.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut columns = rest.split_ascii_whitespace();
    // Columns 3, 20 and 22 of the line.
    Some(Stat {
        state: columns.next()?.chars().next()?,
        threads: columns.nth(16)?.parse().ok()?,
        start_ticks: columns.nth(1)?.parse().ok()?,
    })
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
        other.kill();
    }

    #[test]
    fn unreaped_process_counts_as_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        identity.terminate();
        assert!(identity.wait_exited(Instant::now() + Duration::from_secs(10)));
        child.wait().unwrap();
    }

    #[test]
    fn open_files_limit_is_readable() {
        assert!(open_files_max(std::process::id()).unwrap() > 0);
    }
}
