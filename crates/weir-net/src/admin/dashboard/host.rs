//! CPU time and memory of this process and machine; unreadable values are omitted.

use procfs::process::Process;
use procfs::{CurrentSI as _, KernelStats};

/// Returns name and CPU time in clock ticks of all threads of this process.
pub(super) fn threads() -> Vec<(String, u64)> {
    let tasks = Process::myself().and_then(|process| process.tasks());
    let stats = tasks.into_iter().flatten().flatten();
    stats
        .filter_map(|task| task.stat().ok())
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
    let status = Process::myself()
        .and_then(|process| process.status())
        .ok()?;
    Some([status.vmrss? * 1024, status.rssanon? * 1024])
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
