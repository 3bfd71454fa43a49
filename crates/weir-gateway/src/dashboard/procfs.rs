//! CPU time and memory of this process and machine from `/proc`; unreadable values are omitted.

use std::fs;

/// CPU time of a thread, in clock ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) ticks: u64,
}

/// Clock ticks of one core: busy and total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CoreTicks {
    pub(super) busy: u64,
    pub(super) all: u64,
}

/// Ticks per second; Linux reports 100 to programs on all supported architectures.
pub(super) const TICKS_PER_S: f32 = 100.0;

/// Returns all threads of this process.
pub(super) fn threads() -> Vec<Thread> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let stat = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat")).ok();
    let stats = tasks.flatten().filter_map(stat);
    stats.filter_map(|stat| thread(&stat)).collect()
}

/// Parses `PID (NAME) STATE ...`; fields 14 and 15 are user and system time, and a name may contain
/// any character.
fn thread(stat: &str) -> Option<Thread> {
    let begin = stat.find('(')? + 1;
    let end = stat.rfind(')')?;
    let mut rest = stat.get(end + 1..)?.split_ascii_whitespace().skip(11);
    let mut ticks = || rest.next()?.parse::<u64>().ok();
    Some(Thread {
        name: stat.get(begin..end)?.to_owned(),
        ticks: ticks()? + ticks()?,
    })
}

/// Returns all cores of the machine, in order.
pub(super) fn cores() -> Vec<CoreTicks> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().filter_map(core).collect()
}

/// Parses `cpuN user nice system idle iowait irq softirq steal ...`.
fn core(line: &str) -> Option<CoreTicks> {
    let (name, times) = line.split_once(' ')?;
    name.strip_prefix("cpu")?.parse::<u32>().ok()?;
    let times: Vec<u64> = times
        .split_ascii_whitespace()
        .map_while(|time| time.parse().ok())
        .collect();
    // The fields after the first eight are included in user time.
    let all: u64 = times.iter().take(8).sum();
    let idle: u64 = times.iter().skip(3).take(2).sum();
    (times.len() >= 5).then_some(CoreTicks {
        busy: all - idle,
        all,
    })
}

/// Returns resident and anonymous memory of this process, in bytes.
pub(super) fn memory() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some((
        kilobytes(&status, "VmRSS:")? * 1024,
        kilobytes(&status, "RssAnon:")? * 1024,
    ))
}

fn kilobytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_name_may_contain_any_character() {
        let stat = "7 (rdk:main) (x) S 1 2 3 4 5 6 7 8 9 10 11 12 0 0 20 0\n";
        let thread = thread(stat).unwrap();
        assert_eq!((thread.name.as_str(), thread.ticks), ("rdk:main) (x", 23));
        assert_eq!(super::thread("nonsense"), None);
    }

    #[test]
    fn core_lines_are_distinguished_from_total() {
        assert_eq!(core("cpu  9 9 9 9 9 9 9 9 9 9"), None);
        let one = core("cpu1 10 1 2 80 7 0 3 0 5 0").unwrap();
        assert_eq!((one.busy, one.all), (16, 103));
        assert_eq!(core("intr 1 2 3"), None);
    }

    #[test]
    fn own_process_is_found() {
        assert!(!threads().is_empty() && !cores().is_empty());
        let (resident, anonymous) = memory().unwrap();
        assert!(resident >= anonymous && anonymous > 0);
    }
}
