//! Clock and CPU time of the driver.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_load::clock::nanos;

/// Clock with nanoseconds since the start of the driver.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriverClock(Instant);

/// Simultaneous reading of the driver's clock and the CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClockMark {
    pub(super) ns: u64,
    pub(super) cpu_ns: u64,
}

impl Default for DriverClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl DriverClock {
    pub(super) fn now_ns(&self) -> u64 {
        nanos(self.0.elapsed())
    }

    pub(super) fn mark(&self) -> ClockMark {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        ClockMark {
            ns: self.now_ns(),
            cpu_ns: Duration::try_from(cpu).map_or(0, nanos),
        }
    }

    /// Sleeps until the clock reaches `due_ns`. Returns the time of the clock.
    pub(super) fn wait_until(&self, due_ns: u64) -> u64 {
        loop {
            let now = self.now_ns();
            if now >= due_ns {
                return now;
            }
            std::thread::sleep(Duration::from_nanos(due_ns - now));
        }
    }
}

impl ClockMark {
    /// Returns the CPU time since an earlier mark, in microseconds.
    pub(super) fn cpu_us_since(&self, earlier: Self) -> f64 {
        self.cpu_ns.saturating_sub(earlier.cpu_ns) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance() {
        let clock = DriverClock::default();
        let first = clock.mark();
        let mut sum = 0_u64;
        while clock.mark().cpu_ns == first.cpu_ns {
            sum = (0..1000).fold(sum, u64::wrapping_add);
        }
        let second = clock.mark();
        assert!(second.ns > first.ns && second.cpu_us_since(first) > 0.0);
        assert_eq!(first.cpu_us_since(second), 0.0);
    }
}
