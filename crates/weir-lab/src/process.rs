//! One process told apart from a later one with the same id: by its start time.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process of this boot of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    /// Clock ticks from boot to the start of the process.
    pub(crate) start_ticks: u64,
}

impl ProcessIdentity {
    /// The process that has this id now, if there is one.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let start_ticks = stat(pid)?.start_ticks;
        Some(Self { pid, start_ticks })
    }

    /// Whether this very process still runs; one that only waits to be reaped does not.
    pub(crate) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| {
            // The first thread ends before the others, which still hold files and ports.
            let ended = "ZX".contains(stat.state) && stat.threads <= 1;
            stat.start_ticks == self.start_ticks && !ended
        })
    }

    /// Asks the process to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the process without asking.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Waits until the process is gone; false when `deadline` passes first.
    pub(crate) fn wait_exited(&self, deadline: Instant) -> bool {
        while self.is_alive() {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(POLL);
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

/// Names this boot of the machine: start times of another boot mean nothing.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| String::new(), |id| id.trim().to_owned())
}

/// The soft limit of open files of a process.
pub(crate) fn open_files_max(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_ascii_whitespace().next()?;
    Some(soft.parse().unwrap_or(u64::MAX))
}

/// What `/proc/<pid>/stat` says of a process.
struct Stat {
    state: char,
    threads: u32,
    start_ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself have spaces and parentheses; the last one closes it.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut columns = rest.split_ascii_whitespace();
    // Columns 3, 20 and 22 of the line.
    Some(Stat {
        state: columns.next()?.chars().next()?,
        threads: columns.nth(16)?.parse().ok()?,
        start_ticks: columns.nth(1)?.parse().ok()?,
    })
}

/// Interval at which a condition of another process is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_recycled_pid_is_not_the_same_process() {
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
    fn a_process_that_is_not_reaped_counts_as_gone() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        identity.terminate();
        assert!(identity.wait_exited(Instant::now() + Duration::from_secs(10)));
        child.wait().unwrap();
    }

    #[test]
    fn own_limit_of_open_files_is_readable() {
        assert!(open_files_max(std::process::id()).unwrap() > 0);
    }
}
