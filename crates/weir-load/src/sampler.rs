//! Resource usage of processes, from `/proc`: CPU time, memory, threads and context switches by
//! role, and the load of the whole machine.
//!
//! A role is a named set of processes, such as `broker`. The caller decides when to sample. Usage
//! is the difference of two samples, so its resolution is the sampling interval.

use std::collections::BTreeMap;

use procfs::process::{ProcState, Process};
use procfs::{CurrentSI, KernelStats, ProcError, ticks_per_second};
use serde::{Deserialize, Serialize};

/// Process of a role. The start time excludes another process that gets the same process id later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WatchedProcess {
    pid: i32,
    started_ticks: u64,
    dead: bool,
    used: Sample,
}

/// Running totals and current values of one role, summed over its processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sample {
    unix_ns: u64,
    user_us: u64,
    system_us: u64,
    rss_bytes: u64,
    rss_anon_bytes: u64,
    threads: u64,
    switches_voluntary: u64,
    switches_involuntary: u64,
    disk_read_bytes: u64,
    disk_written_bytes: u64,
}

/// Sample of a role on another machine, for the sampler of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleSample {
    sample: Sample,
    /// Id, name and CPU time in microseconds of each thread.
    threads: Vec<(i32, String, u64)>,
}

/// Usage of one role between two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoleUsageSpan {
    /// Time between the first and the last of these samples, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// Resident memory at the first sample.
    pub rss_first_bytes: u64,
    /// Maximum resident memory.
    pub rss_max_bytes: u64,
    /// Maximum resident memory without files: heap and stacks.
    pub rss_anon_max_bytes: u64,
    /// Maximum number of threads.
    pub threads_max: u64,
    /// Context switches because a thread waited.
    pub switches_voluntary: u64,
    /// Context switches because the scheduler preempted a thread.
    pub switches_involuntary: u64,
    /// Bytes read from disks; 0 if the system does not report them.
    pub disk_read_bytes: u64,
    /// Bytes to be written to disks.
    pub disk_written_bytes: u64,
}

impl RoleUsageSpan {
    /// Returns the CPU time, user plus system, in microseconds.
    pub fn cpu_us(&self) -> u64 {
        self.user_us + self.system_us
    }

    /// Returns the sum with the usage of another machine in about the same time. The sum of maxima
    /// is an upper bound.
    fn plus(&self, other: &Self) -> Self {
        Self {
            elapsed_ns: self.elapsed_ns.max(other.elapsed_ns),
            user_us: self.user_us + other.user_us,
            system_us: self.system_us + other.system_us,
            rss_first_bytes: self.rss_first_bytes + other.rss_first_bytes,
            rss_max_bytes: self.rss_max_bytes + other.rss_max_bytes,
            rss_anon_max_bytes: self.rss_anon_max_bytes + other.rss_anon_max_bytes,
            threads_max: self.threads_max + other.threads_max,
            switches_voluntary: self.switches_voluntary + other.switches_voluntary,
            switches_involuntary: self.switches_involuntary + other.switches_involuntary,
            disk_read_bytes: self.disk_read_bytes + other.disk_read_bytes,
            disk_written_bytes: self.disk_written_bytes + other.disk_written_bytes,
        }
    }

    /// Returns the average number of busy cores.
    pub fn cores(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        self.cpu_us() as f64 * 1000.0 / self.elapsed_ns as f64
    }
}

/// Load of the machine between two samples, summed over all cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemUsage {
    /// Time between the first and the last of these samples, in nanoseconds.
    pub elapsed_ns: u64,
    /// Busy time of the cores, in microseconds.
    pub busy_us: u64,
    /// Idle time of the cores, including waits for disks, in microseconds.
    pub idle_us: u64,
    /// Time that another virtual machine of the host used the cores (steal), in microseconds.
    pub steal_us: u64,
    /// Number of context switches.
    pub switches: u64,
    /// Bytes received on all interfaces, including loopback.
    pub received_bytes: u64,
    /// Bytes sent on all interfaces.
    pub sent_bytes: u64,
}

/// Error for a process that cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("process {pid} of role \"{role}\" cannot be read: {source}")]
pub struct WatchError {
    role: String,
    pid: u32,
    source: ProcError,
}

/// Process that ended while it was watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Died {
    /// Role of the process.
    pub role: String,
    /// Process id.
    pub pid: u32,
}

/// Samples of a set of roles; about 100 bytes per role and sample.
#[derive(Debug, Default)]
pub struct Sampler {
    roles: BTreeMap<String, SampledRole>,
    /// Totals since boot, each with its Unix time as elapsed time.
    system: Vec<SystemUsage>,
}

#[derive(Debug, Default)]
struct SampledRole {
    processes: Vec<WatchedProcess>,
    /// Samples of the sum of these processes.
    here: Samples,
    /// Samples of processes on other machines, by their index in the role.
    remote: BTreeMap<usize, Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    totals: Vec<Sample>,
    threads: ThreadTimes,
}

impl Sampler {
    /// Adds a process to a role. Add all processes of a role before its first sample, because their
    /// earlier CPU time is included.
    pub fn watch(&mut self, role: &str, pid: u32) -> Result<(), WatchError> {
        let failed = |source| WatchError {
            role: role.to_owned(),
            pid,
            source,
        };
        let raw = i32::try_from(pid).map_err(|_| failed(ProcError::NotFound(None)))?;
        let stat = Process::new(raw).and_then(|process| process.stat());
        let started_ticks = stat.map_err(failed)?.starttime;
        let role = self.roles.entry(role.to_owned()).or_default();
        role.processes.push(WatchedProcess {
            pid: raw,
            started_ticks,
            dead: false,
            used: Sample::default(),
        });
        Ok(())
    }

    /// Samples all roles and the machine. Returns the processes that ended since the last sample.
    pub fn sample(&mut self, unix_ns: u64) -> Vec<Died> {
        let mut died = Vec::new();
        let here = |(_, role): &(&String, &mut SampledRole)| !role.processes.is_empty();
        for (name, role) in self.roles.iter_mut().filter(here) {
            let ended = role
                .sample(unix_ns)
                .into_iter()
                .map(|pid| (name.clone(), pid));
            died.extend(ended.map(|(role, pid)| Died { role, pid }));
        }
        match SystemUsage::since_boot(unix_ns) {
            Ok(sample) => self.system.push(sample),
            Err(error) => tracing::debug!(%error, "failed to read /proc/stat"),
        }
        died
    }

    /// Returns the latest sample of a role, with its threads.
    pub fn latest(&self, role: &str) -> Option<RoleSample> {
        let role = self.roles.get(role)?;
        let sample = *role.here.totals.last()?;
        let threads = role.here.threads.at(sample.unix_ns);
        let threads = threads.map(|(id, name, cpu_us)| (id, name.to_owned(), cpu_us));
        Some(RoleSample {
            sample,
            threads: threads.collect(),
        })
    }

    /// Adds a sample of a process on another machine; `index` is its number in the role.
    pub fn add(&mut self, role: &str, index: usize, remote: RoleSample) {
        let role = self.roles.entry(role.to_owned()).or_default();
        let samples = role.remote.entry(index).or_default();
        let unix_ns = remote.sample.unix_ns;
        samples.totals.push(remote.sample);
        for (id, name, cpu_us) in remote.threads {
            samples.threads.add(id, name, unix_ns, cpu_us);
        }
    }

    /// Returns the names of the roles.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.keys().map(String::as_str)
    }

    /// Returns the number of processes of a role, including ended ones.
    pub fn processes(&self, role: &str) -> usize {
        let count = |role: &SampledRole| role.processes.len() + role.remote.len();
        self.roles.get(role).map_or(0, count)
    }

    /// Returns the usage of a role between the first and the last sample with `from <= t <= until`;
    /// `None` with fewer than two samples. Of several machines it is the sum.
    pub fn usage(&self, role: &str, from_ns: u64, until_ns: u64) -> Option<RoleUsageSpan> {
        let all = self.roles.get(role)?.all();
        let spans = all.filter_map(|samples| samples.usage(from_ns, until_ns));
        spans.reduce(|sum, span| sum.plus(&span))
    }

    /// Returns the usage of one process on another machine between the same samples.
    pub fn remote_usage(
        &self,
        (role, index): (&str, usize),
        from_ns: u64,
        until_ns: u64,
    ) -> Option<RoleUsageSpan> {
        let samples = self.roles.get(role)?.remote.get(&index)?;
        samples.usage(from_ns, until_ns)
    }

    /// Returns the busiest thread of a role between the same samples: its name and its share of a
    /// core.
    pub fn busiest_thread(&self, role: &str, from_ns: u64, until_ns: u64) -> Option<(&str, f64)> {
        let shares = self.thread_shares(role, from_ns, until_ns);
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns all threads of a role, each with its share of a core between the same samples.
    pub fn thread_shares(
        &self,
        role: &str,
        from_unix_ns: u64,
        until_unix_ns: u64,
    ) -> impl Iterator<Item = (&str, f64)> {
        let role = self.roles.get(role).into_iter();
        let samples = role.flat_map(SampledRole::all);
        samples.flat_map(move |it| it.threads.shares(from_unix_ns, until_unix_ns))
    }

    /// Returns the load of the machine between the same samples.
    pub fn system(&self, from_unix_ns: u64, until_unix_ns: u64) -> Option<SystemUsage> {
        let samples = inside(
            &self.system,
            |it| it.elapsed_ns,
            from_unix_ns,
            until_unix_ns,
        );
        let [first, .., last] = samples else {
            return None;
        };
        let since = |value: fn(&SystemUsage) -> u64| value(last).saturating_sub(value(first));
        Some(SystemUsage {
            elapsed_ns: since(|it| it.elapsed_ns),
            busy_us: since(|it| it.busy_us),
            idle_us: since(|it| it.idle_us),
            steal_us: since(|it| it.steal_us),
            switches: since(|it| it.switches),
            received_bytes: since(|it| it.received_bytes),
            sent_bytes: since(|it| it.sent_bytes),
        })
    }
}

impl Samples {
    fn usage(&self, from_ns: u64, until_ns: u64) -> Option<RoleUsageSpan> {
        usage(inside(&self.totals, |it| it.unix_ns, from_ns, until_ns))
    }
}

impl SampledRole {
    /// Returns the samples of this machine and of all others.
    fn all(&self) -> impl Iterator<Item = &Samples> {
        std::iter::once(&self.here).chain(self.remote.values())
    }

    /// Appends a sample. Returns the process ids that were found dead. The usage of a dead process
    /// remains in the sum: its final totals while it is a zombie, else those of its last sample.
    fn sample(&mut self, unix_ns: u64) -> Vec<u32> {
        let mut sum = Sample {
            unix_ns,
            ..Sample::default()
        };
        let mut died = Vec::new();
        for process in &mut self.processes {
            if process.dead {
                sum.add(&process.used);
                continue;
            }
            match process.sample(unix_ns, &mut self.here.threads) {
                Ok(sample) => {
                    sum.add(&sample);
                    // An ended process has no memory and no threads.
                    process.used = Sample {
                        rss_bytes: 0,
                        rss_anon_bytes: 0,
                        threads: 0,
                        ..sample
                    };
                }
                Err(error) => {
                    tracing::debug!(pid = process.pid, %error, "process ended");
                    process.dead = true;
                    sum.add(&process.used);
                    died.push(process.pid.unsigned_abs());
                }
            }
        }
        self.here.totals.push(sum);
        died
    }
}

impl WatchedProcess {
    fn sample(&mut self, unix_ns: u64, threads: &mut ThreadTimes) -> Result<Sample, ProcError> {
        let process = Process::new(self.pid)?;
        let stat = process.stat()?;
        if stat.starttime != self.started_ticks {
            return Err(ProcError::NotFound(None));
        }
        if matches!(stat.state()?, ProcState::Zombie | ProcState::Dead) {
            self.used.user_us = ticks_us(stat.utime);
            self.used.system_us = ticks_us(stat.stime);
            return Err(ProcError::NotFound(None));
        }
        let status = process.status()?;
        let mut sample = Sample {
            user_us: ticks_us(stat.utime),
            system_us: ticks_us(stat.stime),
            rss_bytes: stat.rss * procfs::page_size(),
            rss_anon_bytes: status.rssanon.unwrap_or(0) * 1024,
            threads: stat.num_threads.unsigned_abs(),
            ..Sample::default()
        };
        // Some systems deny access to these.
        if let Ok(io) = process.io() {
            sample.disk_read_bytes = io.read_bytes;
            sample.disk_written_bytes = io.write_bytes;
        }
        // The status of the process counts the switches of its first thread only.
        for task in process.tasks()?.flatten() {
            if let Ok(status) = task.status() {
                sample.switches_voluntary += status.voluntary_ctxt_switches.unwrap_or(0);
                sample.switches_involuntary += status.nonvoluntary_ctxt_switches.unwrap_or(0);
            }
            if let Ok(stat) = task.stat() {
                let cpu_us = ticks_us(stat.utime + stat.stime);
                threads.add(task.tid, stat.comm, unix_ns, cpu_us);
            }
        }
        Ok(sample)
    }
}

impl Sample {
    fn add(&mut self, other: &Self) {
        self.user_us += other.user_us;
        self.system_us += other.system_us;
        self.rss_bytes += other.rss_bytes;
        self.rss_anon_bytes += other.rss_anon_bytes;
        self.threads += other.threads;
        self.switches_voluntary += other.switches_voluntary;
        self.switches_involuntary += other.switches_involuntary;
        self.disk_read_bytes += other.disk_read_bytes;
        self.disk_written_bytes += other.disk_written_bytes;
    }
}

impl SystemUsage {
    fn since_boot(unix_ns: u64) -> Result<Self, ProcError> {
        let kernel = KernelStats::current()?;
        let total = kernel.total;
        let busy = total.user + total.nice + total.system;
        let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
        // The CPU time is essential; network counters are optional.
        let interfaces = procfs::net::dev_status().unwrap_or_default();
        Ok(Self {
            elapsed_ns: unix_ns,
            busy_us: ticks_us(busy + interrupts),
            idle_us: ticks_us(total.idle + total.iowait.unwrap_or(0)),
            steal_us: ticks_us(total.steal.unwrap_or(0)),
            switches: kernel.ctxt,
            received_bytes: interfaces.values().map(|it| it.recv_bytes).sum(),
            sent_bytes: interfaces.values().map(|it| it.sent_bytes).sum(),
        })
    }
}

/// CPU times by thread id; 16 bytes per thread and sample. One saturated thread limits a process
/// long before the machine is full.
#[derive(Debug, Default)]
struct ThreadTimes(BTreeMap<i32, ThreadTime>);

#[derive(Debug, Default)]
struct ThreadTime {
    name: String,
    /// Time and CPU time in microseconds, ascending.
    totals: Vec<(u64, u64)>,
}

impl ThreadTimes {
    /// Adds the CPU time of a thread at a point in time. If the total decreased, the id belongs to
    /// a new thread.
    fn add(&mut self, id: i32, name: String, unix_ns: u64, cpu_us: u64) {
        let times = self.0.entry(id).or_default();
        if times.totals.last().is_some_and(|(_, last)| *last > cpu_us) {
            times.totals.clear();
        }
        // A thread gets its name shortly after its start.
        times.name = name;
        times.totals.push((unix_ns, cpu_us));
    }

    /// Returns id, name and CPU time of the threads at a point in time.
    fn at(&self, unix_ns: u64) -> impl Iterator<Item = (i32, &str, u64)> {
        self.0.iter().filter_map(move |(id, times)| {
            let (last_unix_ns, cpu_us) = *times.totals.last()?;
            (last_unix_ns == unix_ns).then_some((*id, times.name.as_str(), cpu_us))
        })
    }

    /// Returns all threads, each with its share of a core between two points in time.
    fn shares(&self, from_unix_ns: u64, until_unix_ns: u64) -> impl Iterator<Item = (&str, f64)> {
        self.0.values().filter_map(move |times| {
            let inside = |(at, _): &&(u64, u64)| (from_unix_ns..=until_unix_ns).contains(at);
            let mut totals = times.totals.iter().filter(inside);
            let first = totals.next()?;
            let last = totals.next_back()?;
            let span_ns = last.0.saturating_sub(first.0);
            let share = (last.1 - first.1) as f64 * 1e3 / span_ns as f64;
            (span_ns > 0).then_some((times.name.as_str(), share))
        })
    }
}

/// Returns the samples with `from <= t <= until`; `samples` is ordered by time.
fn inside<T>(samples: &[T], at: impl Fn(&T) -> u64, from: u64, until: u64) -> &[T] {
    let start = samples.partition_point(|sample| at(sample) < from);
    let end = samples.partition_point(|sample| at(sample) <= until);
    samples.get(start..end).unwrap_or_default()
}

fn usage(samples: &[Sample]) -> Option<RoleUsageSpan> {
    let [first, .., last] = samples else {
        return None;
    };
    let max = |value: fn(&Sample) -> u64| samples.iter().map(value).max().unwrap_or(0);
    // Switch counts shrink when threads or processes end, so a difference could be negative.
    let since = |value: fn(&Sample) -> u64| value(last).saturating_sub(value(first));
    Some(RoleUsageSpan {
        elapsed_ns: since(|sample| sample.unix_ns),
        user_us: since(|sample| sample.user_us),
        system_us: since(|sample| sample.system_us),
        rss_first_bytes: first.rss_bytes,
        rss_max_bytes: max(|sample| sample.rss_bytes),
        rss_anon_max_bytes: max(|sample| sample.rss_anon_bytes),
        threads_max: max(|sample| sample.threads),
        switches_voluntary: since(|sample| sample.switches_voluntary),
        switches_involuntary: since(|sample| sample.switches_involuntary),
        disk_read_bytes: since(|sample| sample.disk_read_bytes),
        disk_written_bytes: since(|sample| sample.disk_written_bytes),
    })
}

/// Converts clock ticks, usually 10 ms each, to microseconds.
fn ticks_us(ticks: u64) -> u64 {
    ticks * 1_000_000 / ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// Starts a process that waits until it is killed or its input ends.
    fn child() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().expect("cat is everywhere")
    }

    #[test]
    fn own_process_and_machine_are_sampled() {
        let mut sampler = Sampler::default();
        sampler.watch("test", std::process::id()).expect("we run");
        assert!(sampler.sample(1_000).is_empty());
        assert_eq!(
            sampler.usage("test", 0, 5_000),
            None,
            "one sample gives no difference"
        );
        assert!(sampler.sample(2_000).is_empty());
        let usage = sampler.usage("test", 1_000, 2_000).expect("two samples");
        assert_eq!(usage.elapsed_ns, 1_000);
        assert!(usage.rss_max_bytes > 0 && usage.rss_anon_max_bytes > 0);
        assert!(usage.rss_anon_max_bytes <= usage.rss_max_bytes);
        assert!(usage.threads_max >= 1);
        assert_eq!(sampler.processes("test"), 1);
        assert!(sampler.busiest_thread("test", 1_000, 2_000).is_some());
        assert!(sampler.busiest_thread("other", 1_000, 2_000).is_none());
        assert_eq!(sampler.roles().collect::<Vec<_>>(), ["test"]);
        assert!(
            sampler
                .system(0, 5_000)
                .is_some_and(|system| system.elapsed_ns == 1_000)
        );
    }

    #[test]
    fn samples_of_another_machine_count_as_own() {
        let mut there = Sampler::default();
        there.watch("role", std::process::id()).expect("we run");
        let mut here = Sampler::default();
        for unix_ns in [1_000, 2_000] {
            there.sample(unix_ns);
            let sample = there.latest("role").expect("a sample");
            let text = serde_json::to_string(&sample).expect("plain numbers");
            here.add("clients", 0, serde_json::from_str(&text).expect("the same"));
            here.sample(unix_ns);
        }
        assert_eq!(
            here.usage("clients", 0, 3_000),
            there.usage("role", 0, 3_000)
        );
        let (name, _) = here.busiest_thread("clients", 0, 3_000).expect("threads");
        assert!(
            there
                .thread_shares("role", 0, 3_000)
                .any(|(it, _)| it == name)
        );
        assert_eq!(here.processes("clients"), 1);
        let one = here
            .remote_usage(("clients", 0), 0, 3_000)
            .expect("samples");
        for unix_ns in [1_000, 2_000] {
            there.sample(unix_ns);
            here.add("clients", 1, there.latest("role").expect("a sample"));
        }
        let two = here.usage("clients", 0, 3_000).expect("samples");
        assert_eq!(here.processes("clients"), 2);
        assert_eq!(two.elapsed_ns, one.elapsed_ns);
        assert!(two.rss_max_bytes > one.rss_max_bytes);
    }

    #[test]
    fn role_exit_is_reported_once() {
        let mut child = child();
        let mut sampler = Sampler::default();
        sampler.watch("victim", child.id()).expect("it runs");
        sampler.watch("other", std::process::id()).expect("we run");
        assert!(sampler.sample(1).is_empty());
        child.kill().expect("ours to kill");
        child.wait().expect("it ends");
        let died = Died {
            role: "victim".to_owned(),
            pid: child.id(),
        };
        assert_eq!(sampler.sample(2), [died]);
        assert!(sampler.sample(3).is_empty());
    }

    #[test]
    fn usage_of_dead_process_remains_counted() {
        let mut command = Command::new("sh");
        let work = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        let mut child = command.args(["-c", work]).spawn().expect("a shell");
        let mut sampler = Sampler::default();
        sampler.watch("worker", child.id()).expect("it runs");
        sampler.sample(1);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let mut unix_ns = 1;
        loop {
            unix_ns += 1;
            if !sampler.sample(unix_ns).is_empty() {
                break;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "the process does not end"
            );
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let used = |sampler: &Sampler| sampler.usage("worker", 0, u64::MAX).map(|it| it.cpu_us());
        let all = used(&sampler).expect("samples");
        assert!(all > 0, "final CPU time is missing");
        child.wait().expect("it has ended");
        sampler.sample(unix_ns + 1);
        assert_eq!(used(&sampler), Some(all));
    }

    #[test]
    fn missing_process_is_an_error() {
        let error = Sampler::default()
            .watch("broker", u32::MAX)
            .expect_err("no such process");
        assert!(
            error
                .to_string()
                .starts_with("process 4294967295 of role \"broker\"")
        );
    }

    #[test]
    fn usage_is_the_difference_within_the_window() {
        let samples: Vec<Sample> = (0..10)
            .map(|second| Sample {
                unix_ns: second * 1_000_000_000,
                user_us: second * 300_000,
                system_us: second * 200_000,
                rss_bytes: 1000 + if second == 4 { 500 } else { second },
                rss_anon_bytes: second,
                threads: 3,
                switches_voluntary: second * 10,
                // A thread ended; its switches are no longer counted.
                switches_involuntary: 100 - second,
                disk_read_bytes: 0,
                disk_written_bytes: second * 4096,
            })
            .collect();
        let window = inside(
            &samples,
            |sample| sample.unix_ns,
            1_500_000_000,
            6_000_000_000,
        );
        let usage = usage(window).expect("five samples");
        let expected = RoleUsageSpan {
            elapsed_ns: 4_000_000_000,
            user_us: 1_200_000,
            system_us: 800_000,
            rss_first_bytes: 1002,
            rss_max_bytes: 1500,
            rss_anon_max_bytes: 6,
            threads_max: 3,
            switches_voluntary: 40,
            switches_involuntary: 0,
            disk_read_bytes: 0,
            disk_written_bytes: 4 * 4096,
        };
        assert_eq!(usage, expected);
        assert_eq!((usage.cpu_us(), usage.cores()), (2_000_000, 0.5));
    }

    fn busiest(times: &ThreadTimes, from: u64, until: u64) -> Option<(&str, f64)> {
        times.shares(from, until).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    #[test]
    fn busiest_thread_of_a_span_is_found() {
        let mut times = ThreadTimes::default();
        for second in 0..5_u64 {
            let at = second * 1_000_000_000;
            times.add(1, "main".to_owned(), at, 5_000_000 + second * 100_000);
            let busy_from_2 = 900_000 * second.saturating_sub(2);
            times.add(2, "shard-0".to_owned(), at, busy_from_2);
        }
        assert_eq!(busiest(&times, 0, 2_000_000_000), Some(("main", 0.1)));
        let late = busiest(&times, 2_000_000_000, 9_000_000_000);
        assert_eq!(late, Some(("shard-0", 0.9)));
        assert_eq!(busiest(&times, 4_000_000_000, 9_000_000_000), None);
    }

    #[test]
    fn reused_id_is_another_thread() {
        let mut times = ThreadTimes::default();
        times.add(1, "old".to_owned(), 0, 5_000_000);
        times.add(1, "new".to_owned(), 1_000_000_000, 0);
        times.add(1, "new".to_owned(), 2_000_000_000, 500_000);
        assert_eq!(busiest(&times, 0, 2_000_000_000), Some(("new", 0.5)));
    }
}
