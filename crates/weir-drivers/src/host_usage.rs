//! CPU usage of other processes while a library is measured, and peak usage of the library's
//! process.

use std::collections::VecDeque;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use procfs::{CurrentSI as _, KernelStats, process::Process, ticks_per_second};

/// CPU readings of the machine and of the run's own processes.
#[derive(Debug)]
pub struct HostUsage {
    cores: f64,
    /// Processes of the broker; `None` if they are not on this machine or not known.
    broker: Option<Vec<u32>>,
    readings: VecDeque<UsageReading>,
}

#[derive(Debug, Clone, Copy)]
struct UsageReading {
    at: Instant,
    /// CPU time of all processes of this machine and of other guests of its host, in microseconds.
    busy_us: u64,
    /// CPU time of the run's own processes, in microseconds.
    own_us: u64,
}

impl HostUsage {
    /// Creates a meter without readings. `broker` has the broker's processes, if known.
    pub fn new(cores: u64, broker: Option<Vec<u32>>) -> Self {
        Self {
            cores: cores as f64,
            broker,
            readings: VecDeque::new(),
        }
    }

    /// Returns the bytes that processes of this machine have sent to each other so far, with the
    /// headers of TCP and IP. `None` if the broker is not one of them.
    pub fn wire_bytes(&self) -> Option<u64> {
        self.broker.as_ref()?;
        Some(procfs::net::dev_status().ok()?.get("lo")?.sent_bytes)
    }

    /// Takes a reading; `drivers` are processes of the run as well.
    pub fn read(&mut self, drivers: &[u32]) {
        let (Some(broker), Ok(kernel)) = (&self.broker, KernelStats::current()) else {
            return;
        };
        let total = kernel.total;
        let busy = total.user + total.nice + total.system + total.steal.unwrap_or(0);
        let in_run = broker.iter().chain(drivers);
        let in_run: u64 = in_run.map(|pid| cpu_us(*pid, false)).sum();
        // Exited drivers are counted as children of this process.
        let own_us = in_run + cpu_us(std::process::id(), true);
        self.readings.push_back(UsageReading {
            at: Instant::now(),
            busy_us: ticks_us(busy),
            own_us,
        });
        if self.readings.len() > READINGS_MAX {
            self.readings.pop_front();
        }
    }

    /// Returns the share of the machine that other processes used from `since` to the last reading,
    /// over half a second at least: the counters have a resolution of 10 ms, which is as long as a
    /// burst.
    pub fn share(&self, since: Instant) -> Option<f64> {
        let last = self.readings.back()?;
        let from = since.min(last.at.checked_sub(SPAN_MIN)?);
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

/// Returns the CPU time of a process in microseconds, with or without that of its exited children;
/// 0 if it does not exist.
fn cpu_us(pid: u32, with_children: bool) -> u64 {
    let stat = process(pid).and_then(|process| process.stat().ok());
    stat.map_or(0, |stat| {
        let children = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
        let exited = if with_children { children } else { 0 };
        ticks_us(stat.utime + stat.stime + exited)
    })
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

fn ticks_us(ticks: u64) -> u64 {
    ticks * 1_000_000 / ticks_per_second().max(1)
}

/// Resets the peak resident memory of a process to its current value.
pub fn reset_peak(pid: u32) {
    // If this is not permitted, the peak covers the whole lifetime.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Peak resident memory in kB, and number of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeakUsage {
    /// Peak resident memory in kB; `None`: not known.
    pub peak_rss_kb: Option<u64>,
    /// Number of threads; `None`: not known.
    pub threads: Option<u64>,
}

impl PeakUsage {
    /// Returns the values of a process up to now.
    fn read(pid: u32) -> Self {
        let status = process(pid).and_then(|process| process.status().ok());
        status.map_or_else(Self::default, |status| Self {
            peak_rss_kb: status.vmhwm,
            threads: Some(status.threads),
        })
    }

    /// Returns the larger of each value.
    fn or_more(self, other: Self) -> Self {
        Self {
            peak_rss_kb: self.peak_rss_kb.max(other.peak_rss_kb),
            threads: self.threads.max(other.threads),
        }
    }

    /// Runs `work` and samples a process meanwhile: first after a few milliseconds, then at
    /// increasing intervals.
    pub fn during<T>(pid: u32, work: impl FnOnce() -> T) -> (T, Self) {
        let (running, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let watcher = scope.spawn(move || {
                let (mut peak, mut pause) = (Self::default(), SAMPLE_INTERVAL_MIN);
                loop {
                    let is_running = ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout);
                    peak = peak.or_more(Self::read(pid));
                    if !is_running {
                        return peak;
                    }
                    pause = (pause * 2).min(SAMPLE_INTERVAL_MAX);
                }
            });
            let result = work();
            drop(running);
            // Invariant: reading a file and comparing numbers does not panic.
            (result, watcher.join().unwrap_or_default())
        })
    }
}

/// Minimum time span: kernel counters have a resolution of 10 ms.
const SPAN_MIN: Duration = Duration::from_millis(500);
/// Several readings per repetition and driver; older ones are not used.
const READINGS_MAX: usize = 4096;
const SAMPLE_INTERVAL_MIN: Duration = Duration::from_millis(4);
const SAMPLE_INTERVAL_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_on_the_wire_grow_with_traffic() {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let usage = HostUsage::new(2, Some(Vec::new()));
        let before = usage.wire_bytes().unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(&[7; 50_000]).unwrap();
        let mut server = listener.accept().unwrap().0;
        server.read_exact(&mut [0; 50_000]).unwrap();
        let grown = usage.wire_bytes().unwrap() - before;
        assert!(grown >= 50_000, "{grown}");
        assert_eq!(
            HostUsage::new(2, None).wire_bytes(),
            None,
            "another machine"
        );
    }

    #[test]
    fn other_usage_is_busy_minus_own_time() {
        let start = Instant::now();
        let reading = |ms, busy_us, own_us| UsageReading {
            at: start + Duration::from_millis(ms),
            busy_us,
            own_us,
        };
        let mut usage = HostUsage::new(2, Some(Vec::new()));
        usage.readings.extend([
            reading(0, 0, 0),
            reading(600, 500_000, 400_000),
            reading(605, 500_000, 410_000),
            reading(1200, 1_700_000, 410_000),
        ]);
        // Busy: 1,290,000 us of 2 cores over 600 ms; 1,200,000 us of them by other processes.
        let share = usage.share(start + Duration::from_millis(604)).unwrap();
        assert!((share - 1.19 / 1.2).abs() < 0.01, "{share}");
        let all = usage.share(start).unwrap();
        assert!((all - 1.29 / 2.4).abs() < 0.01, "{all}");
        let mut unknown = HostUsage::new(2, None);
        unknown.read(&[]);
        assert_eq!(unknown.share(start), None);
    }

    #[test]
    fn exited_children_count_as_own_usage() {
        let own = || cpu_us(std::process::id(), true);
        let before = own();
        let busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let exited = std::process::Command::new("sh").args(["-c", busy]).status();
        assert!(exited.unwrap().success());
        assert!(own() > before);
        assert_eq!(cpu_us(u32::MAX, true), 0);
    }

    #[test]
    fn process_status_has_peak_and_threads() {
        assert_eq!(PeakUsage::read(u32::MAX), PeakUsage::default());

        let own = std::process::id();
        reset_peak(own);
        let (sum, peak) = PeakUsage::during(own, || (0..10).sum::<u32>());
        assert_eq!(sum, 45);
        assert!(
            peak.peak_rss_kb > Some(0) && peak.threads >= Some(2),
            "{peak:?}"
        );
    }
}
