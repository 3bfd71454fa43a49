//! Who else had the processors while a library was measured, and what its process held.

use std::collections::VecDeque;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use procfs::{CurrentSI as _, KernelStats, process::Process, ticks_per_second};

/// Readings of the machine and of the run's own processes.
#[derive(Debug)]
pub(super) struct HostUsage {
    cores: f64,
    /// Processes of the broker; `None`: it is elsewhere or not known.
    broker: Option<Vec<u32>>,
    readings: VecDeque<UsageReading>,
}

#[derive(Debug, Clone, Copy)]
struct UsageReading {
    at: Instant,
    /// Of all processes of this machine, and of other guests of its host, in microseconds.
    busy_us: u64,
    /// Of the run's own.
    own_us: u64,
}

impl HostUsage {
    /// `broker`: its processes, if they are known.
    pub(super) fn new(cores: u64, broker: Option<Vec<u32>>) -> Self {
        Self {
            cores: cores as f64,
            broker,
            readings: VecDeque::new(),
        }
    }

    /// Takes a reading; `drivers` are processes of the run as well.
    pub(super) fn read(&mut self, drivers: &[u32]) {
        let (Some(broker), Ok(kernel)) = (&self.broker, KernelStats::current()) else {
            return;
        };
        let total = kernel.total;
        let busy = total.user + total.nice + total.system + total.steal.unwrap_or(0);
        let theirs: u64 = broker
            .iter()
            .chain(drivers)
            .map(|pid| cpu_us(*pid, false))
            .sum();
        // Drivers that have ended are among this program's children.
        let own_us = theirs + cpu_us(std::process::id(), true);
        self.readings.push_back(UsageReading {
            at: Instant::now(),
            busy_us: ticks_us(busy),
            own_us,
        });
        if self.readings.len() > READINGS_MAX {
            self.readings.pop_front();
        }
    }

    /// Share of the machine that others had from `since` until the last reading, or over the last half second if that is
    /// longer: counters go in hundredths of a second, and a burst may take one of them.
    pub(super) fn share(&self, since: Instant) -> Option<f64> {
        let last = self.readings.back()?;
        let from = since.min(last.at.checked_sub(LEAST)?);
        let mut before = self.readings.iter().rev();
        let first = before.find(|reading| reading.at <= from)?;
        share(first, last, self.cores)
    }
}

fn share(first: &UsageReading, last: &UsageReading, cores: f64) -> Option<f64> {
    let elapsed_us = last.at.duration_since(first.at).as_secs_f64() * 1e6;
    let busy = last.busy_us.saturating_sub(first.busy_us);
    let own = last.own_us.saturating_sub(first.own_us);
    (elapsed_us > 0.0).then(|| busy.saturating_sub(own) as f64 / (elapsed_us * cores))
}

/// Processor time of a process so far, with that of its children that have ended or without; none if it is gone.
fn cpu_us(pid: u32, with_children: bool) -> u64 {
    let pid = i32::try_from(pid).unwrap_or(0);
    let stat = Process::new(pid).and_then(|process| process.stat());
    stat.map_or(0, |stat| {
        let children = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
        let ended = if with_children { children } else { 0 };
        ticks_us(stat.utime + stat.stime + ended)
    })
}

fn ticks_us(ticks: u64) -> u64 {
    ticks * 1_000_000 / ticks_per_second().max(1)
}

/// Sets the largest resident memory of a process back to what it has now.
pub(super) fn reset_peak(pid: u32) {
    // Where it is not allowed the peak is that of its whole life.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Largest resident memory in kB, and threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PeakUsage {
    pub(super) peak_rss_kb: Option<u64>,
    pub(super) threads: Option<u64>,
}

impl PeakUsage {
    /// What a process holds now.
    pub(super) fn read(pid: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        Self {
            peak_rss_kb: field("VmHWM:"),
            threads: field("Threads:"),
        }
    }

    /// The larger of each.
    fn or_more(self, other: Self) -> Self {
        Self {
            peak_rss_kb: self.peak_rss_kb.max(other.peak_rss_kb),
            threads: self.threads.max(other.threads),
        }
    }

    /// Does `work` and looks at a process meanwhile, seldom: the first time after some milliseconds, then less and less.
    pub(super) fn during<T>(pid: u32, work: impl FnOnce() -> T) -> (T, Self) {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut most = Self::default();
                let mut pause = LOOK_FIRST;
                loop {
                    let until = Instant::now() + pause;
                    while Instant::now() < until && !done.load(Ordering::Acquire) {
                        thread::park_timeout(until.saturating_duration_since(Instant::now()));
                    }
                    most = most.or_more(Self::read(pid));
                    if done.load(Ordering::Acquire) {
                        return most;
                    }
                    pause = (pause * 2).min(LOOK_LAST);
                }
            });
            let result = work();
            done.store(true, Ordering::Release);
            watcher.thread().unpark();
            // Invariant: reading a file and comparing numbers does not panic.
            (result, watcher.join().unwrap_or_default())
        })
    }
}

/// Counters of the kernel go in steps of 10 ms.
const LEAST: Duration = Duration::from_millis(500);
/// Some per repetition and driver; older ones are not looked at.
const READINGS_MAX: usize = 4096;
const LOOK_FIRST: Duration = Duration::from_millis(4);
const LOOK_LAST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_had_is_what_is_left_of_the_busy_time() {
        let start = Instant::now();
        let reading = |ms, busy_us, own_us| UsageReading {
            at: start + Duration::from_millis(ms),
            busy_us,
            own_us,
        };
        let mut others = HostUsage::new(2, Some(Vec::new()));
        others.readings.extend([
            reading(0, 0, 0),
            reading(600, 500_000, 400_000),
            reading(605, 500_000, 410_000),
            reading(1200, 1_700_000, 410_000),
        ]);
        // 1,290,000 us of 2 cores over 600 ms and 1,200,000 of them by others.
        let share = others.share(start + Duration::from_millis(604)).unwrap();
        assert!((share - 1.19 / 1.2).abs() < 0.01, "{share}");
        let all = others.share(start).unwrap();
        assert!((all - 1.29 / 2.4).abs() < 0.01, "{all}");
        let mut unknown = HostUsage::new(2, None);
        unknown.read(&[]);
        assert_eq!(unknown.share(start), None);
    }

    #[test]
    fn what_ended_children_used_is_the_runs_own() {
        let own = || cpu_us(std::process::id(), true);
        let before = own();
        let busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let ended = std::process::Command::new("sh").args(["-c", busy]).status();
        assert!(ended.unwrap().success());
        assert!(own() > before);
        assert_eq!(cpu_us(u32::MAX, true), 0);
    }

    #[test]
    fn a_process_tells_its_peak_and_threads() {
        let text = "Name:\tx\nVmHWM:\t  5120 kB\nVmRSS:\t 100 kB\nThreads:\t7\n";
        let held = PeakUsage::parse(text);
        assert_eq!((held.peak_rss_kb, held.threads), (Some(5120), Some(7)));
        assert_eq!(PeakUsage::parse(""), PeakUsage::default());

        let own = std::process::id();
        reset_peak(own);
        let (sum, held) = PeakUsage::during(own, || (0..10).sum::<u32>());
        assert_eq!(sum, 45);
        assert!(
            held.peak_rss_kb > Some(0) && held.threads >= Some(2),
            "{held:?}"
        );
    }
}
