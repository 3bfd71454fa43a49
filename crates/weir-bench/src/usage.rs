//! Resource usage of a cell's processes, by role.

use std::collections::BTreeMap;

use weir_stats::run::{Cell, MachineUsage, RoleUsage};

use super::child::{ProcessRole, RoleInstance};
use super::environment;
use super::saturation::MachineLoad;
use weir_load::sampler::{RoleSample, RoleUsageSpan, Sampler};

#[derive(Debug, Default)]
pub(super) struct CellUsage {
    sampler: Sampler,
    /// Time at which each role was ready. Memory growth from then on is the cost of the clients.
    ready_unix_ns: BTreeMap<ProcessRole, u64>,
}

impl CellUsage {
    pub(super) fn watch(&mut self, role: ProcessRole, pids: &[u32]) {
        for pid in pids {
            if let Err(error) = self.sampler.watch(role.name(), *pid) {
                // The run detects and reports the exit of the process.
                tracing::debug!(%error, "process exited before it was sampled");
            }
        }
    }

    /// Adds a sample of a process on another machine.
    pub(super) fn add(&mut self, instance: RoleInstance, sample: RoleSample) {
        let RoleInstance { role, index } = instance;
        self.sampler.add(role.name(), index, sample);
    }

    /// Returns the usage of a process on another machine inside a window.
    pub(super) fn process(
        &self,
        instance: RoleInstance,
        (from, until): (u64, u64),
    ) -> Option<RoleUsageSpan> {
        let process = (instance.role.name(), instance.index);
        self.sampler.remote_usage(process, from, until + EDGE_NS)
    }

    /// Records that a role is ready and its memory at that time.
    pub(super) fn ready(&mut self, role: ProcessRole, unix_ns: u64) {
        self.sampler.sample(unix_ns);
        self.ready_unix_ns.insert(role, unix_ns);
    }

    pub(super) fn read(&mut self, unix_ns: u64) {
        // The run detects and reports processes that have exited.
        self.sampler.sample(unix_ns);
    }

    /// Returns the cores used by each role over about the last second before `unix_ns`.
    pub(super) fn cores_at(&self, unix_ns: u64) -> BTreeMap<String, f64> {
        let from_unix_ns = unix_ns.saturating_sub(RECENT_NS);
        let cores = self.sampler.roles().filter_map(|role| {
            let usage = self.sampler.usage(role, from_unix_ns, unix_ns)?;
            Some((role.to_owned(), usage.cores()))
        });
        cores.collect()
    }

    /// Returns the machine's usage inside a window, as far as the kernel counts it.
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

    /// Sets the machine's usage inside a window in a cell whose roles are known, and returns the
    /// load.
    pub(super) fn set_machine(&self, cell: &mut Cell, span: (u64, u64)) -> Option<MachineLoad> {
        let machine = self.machine(span)?;
        let load = MachineLoad {
            busy_share: machine.busy_share,
            cores: environment::cores(),
        };
        cell.machine = Some(MachineUsage {
            other_processes_cores: load.used_by_others(&cell.roles),
            load_average_1m: environment::load_average(),
            ..machine
        });
        Some(load)
    }

    /// Returns the shares of a core used by the gateway's ingest and mapping threads: of the
    /// busiest thread, and of all together.
    pub(super) fn mapping_threads(&self, (from, until): (u64, u64)) -> Option<(f64, f64)> {
        let name = ProcessRole::Gateway.name();
        let shares = self.sampler.thread_shares(name, from, until + EDGE_NS);
        let is_mapping = |thread: &str| MAPPING_THREADS.iter().any(|it| thread.starts_with(it));
        let mapping = shares.filter(|(thread, _)| is_mapping(thread));
        let shares: Vec<f64> = mapping.map(|(_, share)| share).collect();
        let busiest = shares.iter().copied().reduce(f64::max)?;
        Some((busiest, shares.iter().sum()))
    }

    /// Returns the usage of each role inside the window; costs are per wanted delivery.
    pub(super) fn roles(&self, window: (u64, u64), clients: u64, wanted: u64) -> Vec<RoleUsage> {
        let role = |role: ProcessRole| self.role(role, window, clients, wanted);
        ProcessRole::ALL.iter().copied().filter_map(role).collect()
    }

    fn role(
        &self,
        role: ProcessRole,
        (from, until): (u64, u64),
        clients: u64,
        wanted: u64,
    ) -> Option<RoleUsage> {
        let (name, until) = (role.name(), until + EDGE_NS);
        let usage = self.sampler.usage(name, from, until)?;
        let busiest = self.sampler.busiest_thread(name, from, until);
        let ready = self.ready_unix_ns.get(&role);
        let whole = ready.and_then(|ready| self.sampler.usage(name, *ready, until));
        let rss_start = whole.map(|whole| whole.rss_first_bytes);
        let growth = rss_start.map(|start| usage.rss_max_bytes.saturating_sub(start) as f64);
        let serves = matches!(role, ProcessRole::Gateway | ProcessRole::Floor);
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

/// Name prefixes of the gateway's ingest and mapping threads.
const MAPPING_THREADS: [&str; 2] = ["ingest-", "map-"];
/// Minimum CPU time. It is counted in hundredths of a second, so smaller values are too inexact.
const CPU_US_MIN: u64 = 100_000;
/// The sample at the end of the window is taken just after it.
const EDGE_NS: u64 = 100_000_000;
/// Covers the sample before the last one, one second earlier.
const RECENT_NS: u64 = 1_500_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_recorded_per_role() {
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
