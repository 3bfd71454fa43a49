//! CPU time of a process, as the system counts it, and number of cores.

use std::fs;

/// Returns user and system time of all threads, including ended ones, in microseconds. The
/// resolution is one tick.
pub(super) fn cpu_us(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = ticks(&stat)?;
    Some(ticks as f64 * TICK_US)
}

/// Adds columns 14 and 15 of the line.
fn ticks(stat: &str) -> Option<u64> {
    // The name in parentheses may contain spaces and parentheses; the last one closes it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut columns = rest.split_ascii_whitespace();
    let user: u64 = columns.nth(11)?.parse().ok()?;
    let system: u64 = columns.next()?.parse().ok()?;
    user.checked_add(system)
}

/// Returns the number of online cores.
pub(super) fn cores() -> f64 {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let count = online.and_then(|ranges| count(ranges.trim()));
    let usable = || std::thread::available_parallelism().map_or(1, usize::from);
    count.unwrap_or_else(usable) as f64
}

/// Counts the numbers of a list such as `0-3,8`.
fn count(ranges: &str) -> Option<usize> {
    ranges.split(',').try_fold(0, |sum: usize, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Length of a tick; Linux uses hundredths of a second.
const TICK_US: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files_are_parsed() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 100 0 0";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("42 (a"), None);
        assert_eq!(count("0-3,8"), Some(5));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("3-0"), None);
        assert_eq!(count(""), None);
        assert!(cores() >= 1.0);
    }

    #[test]
    fn own_cpu_time_increases() {
        let own = std::process::id();
        let before = cpu_us(own).unwrap();
        let mut sum = 0_u64;
        while cpu_us(own).unwrap() <= before {
            sum = (0..100_000).fold(sum, u64::wrapping_add);
        }
        assert!(cpu_us(u32::MAX).is_none());
    }
}
