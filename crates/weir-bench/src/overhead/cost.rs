//! Measures the cost of one cell: CPU time and memory of proxy, broker and client.

use std::time::{Duration, Instant};

use weir_stats::run::Cell;

use super::context::OverheadJob;
use crate::child::ProcessRole;
use crate::usage::CellUsage;
use weir_load::clock::Clock;

/// Resource samples of one cell, from before its client starts until after it ends.
pub(super) struct CostMeter {
    pub(super) usage: CellUsage,
    clock: Clock,
    from_unix_ns: u64,
    next: Instant,
}

impl CostMeter {
    pub(super) fn start(job: OverheadJob<'_>) -> Self {
        let run = job.context.run;
        let mut meter = Self {
            usage: CellUsage::default(),
            clock: run.run_dir.clock,
            from_unix_ns: run.run_dir.clock.now_unix_ns(),
            next: Instant::now() + SAMPLE_INTERVAL,
        };
        let roles = [
            (ProcessRole::Proxy, &job.server.pids),
            (ProcessRole::Broker, &run.broker.pids),
        ];
        for (role, pids) in roles {
            meter.usage.watch(role, pids);
            meter.usage.ready(role, meter.from_unix_ns);
        }
        meter
    }

    pub(super) fn ready(&mut self, role: ProcessRole) {
        self.usage.ready(role, self.clock.now_unix_ns());
    }

    /// Takes a sample if one is due.
    pub(super) fn sample(&mut self) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + SAMPLE_INTERVAL;
            self.usage.read(self.clock.now_unix_ns());
        }
    }

    /// Takes the last sample and sets the results of the cell; `bytes` is the size of all values.
    pub(super) fn finish(mut self, cell: &mut Cell, bytes: u64) {
        let span = (self.from_unix_ns, self.clock.now_unix_ns());
        self.usage.read(span.1);
        set(cell, &self.usage, span, bytes);
    }
}

/// Sets roles, machine and figures of a cell; `bytes` is the size of all values.
pub(super) fn set(cell: &mut Cell, usage: &CellUsage, span: (u64, u64), bytes: u64) {
    cell.roles = usage.roles(span, 0, 0);
    let gb = bytes as f64 / 1e9;
    let per_gb = |us: u64| us as f64 / 1e6 / gb;
    let mut figures = Vec::new();
    if let Some(proxy) = cell.role(PROXY) {
        let rss = proxy.rss_max_bytes.unwrap_or(0) as f64 / f64::from(1 << 20);
        let system_us = proxy.cpu_system_us.unwrap_or(0);
        figures.push((CPU_PER_GB, per_gb(proxy.cpu_us_total)));
        figures.push(("cpu_system_s_per_gb", per_gb(system_us)));
        figures.push((RSS, rss));
    }
    if let Some(broker) = cell.role(ProcessRole::Broker.name()) {
        figures.push(("broker_cpu_s_per_gb", per_gb(broker.cpu_us_total)));
    }
    let known = figures.into_iter().filter(|_| bytes > 0);
    let known = known.map(|(name, value)| (name.to_owned(), value));
    cell.figures.extend(known);
    usage.set_machine(cell, span);
}

/// Role of the process between client and broker.
pub(super) const PROXY: &str = "proxy";
/// CPU seconds of the proxy per GB (10^9 bytes) of values.
pub(super) const CPU_PER_GB: &str = "cpu_s_per_gb";
/// Peak resident memory of the proxy.
pub(super) const RSS: &str = "proxy_rss_mib";
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
