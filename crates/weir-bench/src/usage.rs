//! What each part of a cell uses: the sampler's figures under the parts' names.

use std::collections::BTreeMap;

use weir_stats::run::{MachineUsage, RoleUsage};

use super::child::ProcessRole;
use weir_load::sampler::Sampler;

/// The samples of one cell.
#[derive(Debug, Default)]
pub(super) struct CellUsage {
    sampler: Sampler,
    /// When each part was ready, before clients came: memory from there on is what they cost.
    ready_unix_ns: BTreeMap<ProcessRole, u64>,
}

impl CellUsage {
    /// Adds the processes of a part.
    pub(super) fn watch(&mut self, part: ProcessRole, pids: &[u32]) {
        for pid in pids {
            if let Err(error) = self.sampler.watch(part.name(), *pid) {
                // Its end is noticed elsewhere, with the reason.
                tracing::debug!(%error, "not sampled");
            }
        }
    }

    /// Notes the memory of a part that is ready.
    pub(super) fn ready(&mut self, part: ProcessRole, unix_ns: u64) {
        self.sampler.sample(unix_ns);
        self.ready_unix_ns.insert(part, unix_ns);
    }

    /// Reads all parts and the machine.
    pub(super) fn read(&mut self, unix_ns: u64) {
        // Who has died is noticed elsewhere, with the reason.
        self.sampler.sample(unix_ns);
    }

    /// Cores busy by part over the last second or so before `unix_ns`.
    pub(super) fn cores_at(&self, unix_ns: u64) -> BTreeMap<String, f64> {
        let from_unix_ns = unix_ns.saturating_sub(RECENT_NS);
        let cores = self.sampler.roles().filter_map(|role| {
            let usage = self.sampler.usage(role, from_unix_ns, unix_ns)?;
            Some((role.to_owned(), usage.cores()))
        });
        cores.collect()
    }

    /// The machine inside a window, so far as its own counters tell.
    pub(super) fn machine(&self, (from, until): (u64, u64)) -> Option<MachineUsage> {
        let system = self.sampler.system(from, until + EDGE_NS)?;
        let all = (system.busy_us + system.idle_us + system.steal_us).max(1) as f64;
        Some(MachineUsage {
            busy_share: system.busy_us as f64 / all,
            steal_share: system.steal_us as f64 / all,
            context_switches: Some(system.switches),
            network_rx_bytes: Some(system.received_bytes),
            network_tx_bytes: Some(system.sent_bytes),
            ..MachineUsage::default()
        })
    }

    /// Of the gateway's threads that read and map records: the share of a core that the busiest had,
    /// and that all had together.
    pub(super) fn mapping_threads(&self, (from, until): (u64, u64)) -> Option<(f64, f64)> {
        let name = ProcessRole::Gateway.name();
        let shares = self.sampler.thread_shares(name, from, until + EDGE_NS);
        let mapping = shares.filter(|(thread, _)| {
            let mut prefixes = MAPPING_THREADS.iter();
            prefixes.any(|prefix| thread.starts_with(prefix))
        });
        let (mut busiest, mut all) = (None, 0.0);
        for (_, share) in mapping {
            busiest = Some(share.max(busiest.unwrap_or(0.0)));
            all += share;
        }
        busiest.map(|busiest| (busiest, all))
    }

    /// What each part used inside the window; costs are per wanted delivery.
    pub(super) fn roles(&self, window: (u64, u64), clients: u64, wanted: u64) -> Vec<RoleUsage> {
        let role = |part: ProcessRole| self.role(part, window, clients, wanted);
        ProcessRole::ALL.into_iter().filter_map(role).collect()
    }

    fn role(
        &self,
        part: ProcessRole,
        (from, until): (u64, u64),
        clients: u64,
        wanted: u64,
    ) -> Option<RoleUsage> {
        let (name, until) = (part.name(), until + EDGE_NS);
        let usage = self.sampler.usage(name, from, until)?;
        let busiest = self.sampler.busiest_thread(name, from, until);
        let ready = self.ready_unix_ns.get(&part);
        let whole = ready.and_then(|ready| self.sampler.usage(name, *ready, until));
        let rss_start = whole.map(|whole| whole.rss_first_bytes);
        let growth = rss_start.map(|start| usage.rss_max_bytes.saturating_sub(start) as f64);
        let serves = matches!(part, ProcessRole::Gateway | ProcessRole::Floor);
        Some(RoleUsage {
            role: name.to_owned(),
            processes: self.sampler.processes(name) as u64,
            cpu_us_total: usage.cpu_us(),
            cpu_system_us: Some(usage.system_us),
            cpu_cores_mean: Some(usage.cores()),
            cpu_us_per_delivered: (wanted > 0 && usage.cpu_us() >= CPU_US_MIN)
                .then(|| usage.cpu_us() as f64 / wanted as f64),
            rss_start_bytes: rss_start,
            rss_max_bytes: Some(usage.rss_max_bytes),
            rss_anon_max_bytes: Some(usage.rss_anon_max_bytes),
            user_memory_per_client_bytes: growth
                .filter(|_| serves && clients > 0)
                .map(|growth| growth / clients as f64),
            threads_max: Some(usage.threads_max),
            busiest_thread: busiest.map(|(thread, _)| thread.to_owned()),
            busiest_thread_cores: busiest.map(|(_, cores)| cores),
            context_switches_voluntary: Some(usage.switches_voluntary),
            context_switches_involuntary: Some(usage.switches_involuntary),
            disk_read_bytes: Some(usage.disk_read_bytes),
            disk_written_bytes: Some(usage.disk_written_bytes),
            ..RoleUsage::default()
        })
    }
}

/// What the gateway calls its threads that read and map records.
const MAPPING_THREADS: [&str; 2] = ["ingest-", "map-"];
/// Processor time is counted in hundredths of a second: below ten of them a share says nothing.
const CPU_US_MIN: u64 = 100_000;
/// The sample at the end of the window is taken just after it.
const EDGE_NS: u64 = 100_000_000;
/// Reaches the sample before the last one, one second earlier.
const RECENT_NS: u64 = 1_500_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_told_from_the_others() {
        let mut usage = CellUsage::default();
        usage.watch(ProcessRole::Gateway, &[std::process::id()]);
        usage.watch(ProcessRole::Floor, &[u32::MAX]);
        usage.ready(ProcessRole::Gateway, 1);
        let second = 1_000_000_000;
        usage.read(10 * second);
        usage.read(11 * second + 5);
        let roles = usage.roles((10 * second, 11 * second), 10, 1000);
        let names: Vec<&str> = roles.iter().map(|role| role.role.as_str()).collect();
        assert_eq!(names, ["gateway"]);
        assert_eq!(roles[0].processes, 1);
        assert!(roles[0].busiest_thread.is_some());
        assert!(roles[0].rss_start_bytes > Some(0));
        assert!(roles[0].user_memory_per_client_bytes.is_some());
        assert!(usage.machine((10 * second, 11 * second)).is_some());
        assert!(usage.cores_at(11 * second + 5).contains_key("gateway"));
        assert!(usage.cores_at(5 * second).is_empty());
    }
}
