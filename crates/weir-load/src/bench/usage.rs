//! What each part of a cell uses, once a second and at the edges of the window.

use std::collections::BTreeMap;

use weir_stats::run::RoleUsage;

use super::child::Part;

/// One reading of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) unix_ns: u64,
    pub(super) cpu_us: u64,
    pub(super) rss_bytes: u64,
    pub(super) threads: u64,
    pub(super) switches_voluntary: u64,
    pub(super) switches_involuntary: u64,
}

impl Reading {
    /// Reads a process; `None` if it is gone.
    pub(super) fn of(pid: u32, unix_ns: u64) -> Option<Self> {
        let process = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?;
        let stat = process.stat().ok()?;
        let ticks = stat.utime + stat.stime;
        let mut reading = Self {
            unix_ns,
            cpu_us: ticks * 1_000_000 / procfs::ticks_per_second().max(1),
            rss_bytes: stat.rss * procfs::page_size(),
            threads: u64::try_from(stat.num_threads).unwrap_or(0),
            ..Self::default()
        };
        // The process's own status counts only its first thread.
        for task in process.tasks().into_iter().flatten().flatten() {
            if let Ok(status) = task.status() {
                reading.switches_voluntary += status.voluntary_ctxt_switches.unwrap_or(0);
                reading.switches_involuntary += status.nonvoluntary_ctxt_switches.unwrap_or(0);
            }
        }
        Some(reading)
    }

    /// The sum over the processes of one part.
    fn plus(self, other: Self) -> Self {
        Self {
            unix_ns: self.unix_ns.max(other.unix_ns),
            cpu_us: self.cpu_us + other.cpu_us,
            rss_bytes: self.rss_bytes + other.rss_bytes,
            threads: self.threads + other.threads,
            switches_voluntary: self.switches_voluntary + other.switches_voluntary,
            switches_involuntary: self.switches_involuntary + other.switches_involuntary,
        }
    }
}

/// The readings of all parts of one cell.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pids: BTreeMap<Part, Vec<u32>>,
    /// Resident memory when the part was ready, before clients came.
    rss_start: BTreeMap<Part, u64>,
    readings: BTreeMap<Part, Vec<Reading>>,
}

impl Usage {
    /// Adds the processes of a part and notes their memory.
    pub(super) fn watch(&mut self, part: Part, pids: &[u32], unix_ns: u64) {
        self.pids.insert(part, pids.to_vec());
        if let Some(reading) = read_all(pids, unix_ns) {
            self.rss_start.insert(part, reading.rss_bytes);
        }
    }

    /// Reads all parts.
    pub(super) fn read(&mut self, unix_ns: u64) {
        for (part, pids) in &self.pids {
            if let Some(reading) = read_all(pids, unix_ns) {
                self.readings.entry(*part).or_default().push(reading);
            }
        }
    }

    /// Cores busy by part between the reading at or before `unix_ns` and the one before it.
    pub(super) fn cores_at(&self, unix_ns: u64) -> BTreeMap<String, f64> {
        let mut cores = BTreeMap::new();
        for (part, readings) in &self.readings {
            let end = readings.partition_point(|reading| reading.unix_ns <= unix_ns);
            if let Some([before, last]) = end.checked_sub(2).and_then(|at| readings.get(at..end)) {
                cores.insert(part.name().to_owned(), cores_between(before, last));
            }
        }
        cores
    }

    /// What each part used inside the window.
    pub(super) fn roles(
        &self,
        window_unix_ns: (u64, u64),
        clients: u64,
        delivered: u64,
    ) -> Vec<RoleUsage> {
        let role = |part: &Part| self.role(*part, window_unix_ns, clients, delivered);
        self.pids.keys().filter_map(role).collect()
    }

    fn role(
        &self,
        part: Part,
        (from, until): (u64, u64),
        clients: u64,
        delivered: u64,
    ) -> Option<RoleUsage> {
        let readings = self.readings.get(&part)?;
        let inside: Vec<&Reading> = readings
            .iter()
            .filter(|reading| (from..=until + EDGE_NS).contains(&reading.unix_ns))
            .collect();
        let (first, last) = (*inside.first()?, *inside.last()?);
        let cpu_us_total = last.cpu_us - first.cpu_us;
        let rss_max = inside.iter().map(|reading| reading.rss_bytes).max();
        let rss_start = self.rss_start.get(&part).copied();
        let growth = rss_max
            .zip(rss_start)
            .map(|(max, start)| max.saturating_sub(start) as f64);
        Some(RoleUsage {
            role: part.name().to_owned(),
            processes: self.pids.get(&part).map_or(0, |pids| pids.len() as u64),
            cpu_us_total,
            cpu_cores_mean: Some(cores_between(first, last)),
            cpu_us_per_delivered: (delivered > 0).then(|| cpu_us_total as f64 / delivered as f64),
            rss_start_bytes: rss_start,
            rss_max_bytes: rss_max,
            user_memory_per_client_bytes: growth
                .filter(|_| matches!(part, Part::Gateway | Part::Floor) && clients > 0)
                .map(|growth| growth / clients as f64),
            threads_max: inside.iter().map(|reading| reading.threads).max(),
            context_switches_voluntary: Some(last.switches_voluntary - first.switches_voluntary),
            context_switches_involuntary: Some(
                last.switches_involuntary - first.switches_involuntary,
            ),
            ..RoleUsage::default()
        })
    }
}

fn read_all(pids: &[u32], unix_ns: u64) -> Option<Reading> {
    let readings = pids.iter().filter_map(|pid| Reading::of(*pid, unix_ns));
    readings.reduce(Reading::plus)
}

fn cores_between(before: &Reading, after: &Reading) -> f64 {
    let span_us = after.unix_ns.saturating_sub(before.unix_ns) as f64 / 1e3;
    if span_us == 0.0 {
        return 0.0;
    }
    after.cpu_us.saturating_sub(before.cpu_us) as f64 / span_us
}

/// The reading at the end of the window is taken just after it.
const EDGE_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_read() {
        let reading = Reading::of(std::process::id(), 5).unwrap();
        assert!(reading.rss_bytes > 0 && reading.threads > 0 && reading.unix_ns == 5);
        assert_eq!(Reading::of(u32::MAX, 5), None);
    }

    #[test]
    fn only_the_window_counts() {
        let mut usage = Usage::default();
        usage.watch(Part::Gateway, &[1, 2], 0);
        usage.rss_start.insert(Part::Gateway, 1000);
        let second = 1_000_000_000;
        let readings = (0..10_u64).map(|at| Reading {
            unix_ns: at * second,
            cpu_us: at * 500_000,
            rss_bytes: 1000 + at * 100,
            threads: 3,
            ..Reading::default()
        });
        usage.readings.insert(Part::Gateway, readings.collect());
        let roles = usage.roles((2 * second, 6 * second), 10, 1000);
        assert_eq!(roles[0].cpu_us_total, 2_000_000);
        assert_eq!(roles[0].cpu_cores_mean, Some(0.5));
        assert_eq!(roles[0].cpu_us_per_delivered, Some(2000.0));
        assert_eq!(roles[0].user_memory_per_client_bytes, Some(60.0));
        assert_eq!(roles[0].processes, 2);
        assert_eq!(usage.cores_at(3 * second + 1)["gateway"], 0.5);
        assert!(usage.cores_at(0).is_empty());
    }
}
