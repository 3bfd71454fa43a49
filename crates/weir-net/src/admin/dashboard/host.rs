//! CPU time and memory of this process and machine; unreadable values are omitted.
//!
//! Samples are part of the cost of an idle process, so they need few system calls.

use std::fs::{File, read_dir};
use std::io::Read as _;
use std::path::Path;

use procfs::process::{Stat, StatM};
use procfs::{CurrentSI as _, FromRead, KernelStats};

/// Bytes of a file with one line of numbers, at most.
const LINE_BYTES_MAX: usize = 2 * 1024;

/// Returns name and CPU time in clock ticks of all threads of this process.
pub(super) fn threads() -> Vec<(String, u64)> {
    let tasks = read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| read_line::<Stat>(&task.path().join("stat")))
        .map(|stat| (stat.comm, stat.utime + stat.stime))
        .collect()
}

/// Returns busy and total clock ticks of all cores of the machine, in order.
pub(super) fn cores() -> Vec<[u64; 2]> {
    let stats = KernelStats::current().map(|stats| stats.cpu_time);
    let ticks = stats.unwrap_or_default().into_iter().map(|core| {
        // User time includes the time of virtual machines.
        let more = [core.irq, core.softirq, core.steal];
        let more: u64 = more.into_iter().flatten().sum();
        let busy = core.user + core.nice + core.system + more;
        [busy, busy + core.idle + core.iowait.unwrap_or(0)]
    });
    ticks.collect()
}

/// Returns resident and anonymous memory of this process, in bytes.
pub(super) fn memory() -> Option<[u64; 2]> {
    // `status` has the same numbers among sixty others.
    let pages = read_line::<StatM>(Path::new("/proc/self/statm"))?;
    let anonymous = pages.resident.saturating_sub(pages.shared);
    Some([pages.resident, anonymous].map(|count| count * procfs::page_size()))
}

/// Reads a file of one line with one call. Reading to its end would need four more.
fn read_line<T: FromRead>(path: &Path) -> Option<T> {
    let mut line = [0; LINE_BYTES_MAX];
    let length = File::open(path)
        .and_then(|mut file| file.read(&mut line))
        .ok()?;
    T::from_read(&line[..length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_found() {
        let busy = |[busy, all]: &[u64; 2]| busy <= all && *all > 0;
        assert!(!threads().is_empty() && cores().iter().any(busy));
        let [resident, anonymous] = memory().unwrap();
        assert!(resident >= anonymous && anonymous > 0);
    }
}
