//! Clocks and resource usage of the driver.

use std::fs;
use std::time::Instant;

use crate::Stats;
use rustix::time::{ClockId, clock_gettime};

use weir_load::clock::nanos;

/// Clock with nanoseconds since the start of the driver.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriverClock(Instant);

/// Simultaneous reading of the driver's clock and the CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClockMark {
    /// Time of the driver's clock.
    pub(super) ns: u64,
    /// CPU time of the whole process.
    pub(super) cpu_ns: u64,
}

impl DriverClock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now_ns(&self) -> u64 {
        nanos(self.0.elapsed())
    }

    pub(super) fn mark(&self) -> ClockMark {
        ClockMark {
            ns: self.now_ns(),
            cpu_ns: cpu_ns(),
        }
    }

    /// Returns the instant at which the clock reads `ns`.
    pub(super) fn instant(&self, ns: u64) -> Instant {
        self.0 + std::time::Duration::from_nanos(ns)
    }
}

impl ClockMark {
    /// Returns the CPU time since an earlier mark, in microseconds.
    pub(super) fn cpu_us_since(&self, earlier: Self) -> f64 {
        self.cpu_ns.saturating_sub(earlier.cpu_ns) as f64 / 1e3
    }
}

/// Returns the CPU time of the process, user plus system.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Returns memory and threads; zeros if the system does not report them.
pub(super) fn stats() -> Stats {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let word = line.and_then(|rest| rest.split_ascii_whitespace().next());
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    Stats {
        rss_kb: number("VmRSS:"),
        threads: number("Threads:"),
        heap_kb: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance() {
        let clock = DriverClock::start();
        let first = clock.mark();
        let mut sum = 0_u64;
        while clock.mark().cpu_ns == first.cpu_ns {
            sum = (0..1000).fold(sum, u64::wrapping_add);
        }
        let second = clock.mark();
        assert!(second.ns > first.ns && second.cpu_us_since(first) > 0.0);
        assert_eq!(first.cpu_us_since(second), 0.0);
    }

    #[test]
    fn process_has_memory_and_threads() {
        let stats = stats();
        assert!(stats.rss_kb > 0 && stats.threads > 0);
    }
}
