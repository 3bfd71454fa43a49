//! Measures the cost of one cell: CPU time and memory of proxy, broker and client.

use std::time::{Duration, Instant};

use weir_stats::run::{Cell, MachineUsage, RoleUsage};

use super::servers::Server;
use crate::environment;
use weir_load::clock::Clock;
use weir_load::sampler::Sampler;

/// Resource samples of one cell, from before its client starts until after it ends.
pub(super) struct ResourceMeter {
    sampler: Sampler,
    clock: Clock,
    from_unix_ns: u64,
    next: Instant,
}

impl ResourceMeter {
    /// Takes the first sample.
    pub(super) fn start(server: &Server, broker_pids: &[u32], clock: Clock) -> Self {
        let mut sampler = Sampler::default();
        let roles = [(PROXY, &server.pids[..]), (BROKER, broker_pids)];
        for (role, pids) in roles {
            for pid in pids {
                if let Err(error) = sampler.watch(role, *pid) {
                    tracing::debug!(%error, "process exited before it was sampled");
                }
            }
        }
        let from_unix_ns = clock.now_unix_ns();
        sampler.sample(from_unix_ns);
        Self {
            sampler,
            clock,
            from_unix_ns,
            next: Instant::now() + SAMPLE_INTERVAL,
        }
    }

    /// Adds the process of the client, which has just started.
    pub(super) fn client(&mut self, role: &str, pid: u32) {
        if let Err(error) = self.sampler.watch(role, pid) {
            tracing::debug!(%error, "process exited before it was sampled");
        }
        self.sampler.sample(self.clock.now_unix_ns());
    }

    /// Takes a sample if one is due.
    pub(super) fn sample(&mut self) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + SAMPLE_INTERVAL;
            self.sampler.sample(self.clock.now_unix_ns());
        }
    }

    /// Takes the last sample and sets the results of the cell; `bytes` is the size of all values.
    pub(super) fn finish(mut self, cell: &mut Cell, bytes: u64) {
        let until = self.clock.now_unix_ns();
        self.sampler.sample(until);
        let names: Vec<String> = self.sampler.roles().map(str::to_owned).collect();
        for name in names {
            let Some(usage) = self.sampler.usage(&name, self.from_unix_ns, until) else {
                continue;
            };
            let busiest = self.sampler.busiest_thread(&name, self.from_unix_ns, until);
            cell.roles.push(RoleUsage {
                processes: self.sampler.processes(&name) as u64,
                cpu_us_total: usage.cpu_us(),
                cpu_system_us: Some(usage.system_us),
                cpu_cores_mean: Some(usage.cores()),
                rss_start_bytes: Some(usage.rss_first_bytes),
                rss_max_bytes: Some(usage.rss_max_bytes),
                rss_anon_max_bytes: Some(usage.rss_anon_max_bytes),
                threads_max: Some(usage.threads_max),
                busiest_thread: busiest.map(|(thread, _)| thread.to_owned()),
                busiest_thread_cores: busiest.map(|(_, cores)| cores),
                context_switches_voluntary: Some(usage.switches_voluntary),
                context_switches_involuntary: Some(usage.switches_involuntary),
                role: name,
                ..RoleUsage::default()
            });
        }
        let gb = bytes as f64 / 1e9;
        let per_gb = |us: u64| us as f64 / 1e6 / gb;
        if let Some(proxy) = cell.role(PROXY).cloned().filter(|_| bytes > 0) {
            let system = proxy.cpu_system_us.unwrap_or(0);
            let figures = [
                (CPU_PER_GB, per_gb(proxy.cpu_us_total)),
                ("cpu_system_s_per_gb", per_gb(system)),
                (
                    RSS,
                    proxy.rss_max_bytes.unwrap_or(0) as f64 / f64::from(1 << 20),
                ),
            ];
            let figures = figures.map(|(name, value)| (name.to_owned(), value));
            cell.figures.extend(figures);
        }
        if let Some(broker) = cell.role(BROKER).filter(|_| bytes > 0) {
            let value = per_gb(broker.cpu_us_total);
            cell.figures.insert("broker_cpu_s_per_gb".to_owned(), value);
        }
        cell.machine = self.machine(cell, until);
    }

    fn machine(&self, cell: &Cell, until: u64) -> Option<MachineUsage> {
        let system = self.sampler.system(self.from_unix_ns, until)?;
        let all = (system.busy_us + system.idle_us + system.steal_us).max(1) as f64;
        let busy_share = system.busy_us as f64 / all;
        let in_run: f64 = cell
            .roles
            .iter()
            .filter_map(|role| role.cpu_cores_mean)
            .sum();
        let others = busy_share * environment::cores() as f64 - in_run;
        Some(MachineUsage {
            busy_share,
            steal_share: system.steal_us as f64 / all,
            other_processes_cores: others.max(0.0),
            load_average_1m: environment::load_average(),
            ..MachineUsage::default()
        })
    }
}

/// Role of the process between client and broker.
pub(super) const PROXY: &str = "proxy";
const BROKER: &str = "broker";
/// CPU seconds of the proxy per GB (10^9 bytes) of values.
pub(super) const CPU_PER_GB: &str = "cpu_s_per_gb";
/// Peak resident memory of the proxy.
pub(super) const RSS: &str = "proxy_rss_mib";
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
