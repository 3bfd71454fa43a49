//! Estimates of the time, memory and disk that a run of a plan needs.
//!
//! The constants come from runs on one machine with 2 cores. They show whether a run takes a minute
//! or an hour; they are not more precise than that.

use std::time::Duration;

use super::{Architecture, Plan, PlanPoint};
use crate::sweep::SweepPlan;

/// Resources that a complete run needs if every level is sustained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanEstimate {
    /// Number of cells.
    pub cells: u64,
    /// Time from starting the broker to the report.
    pub time: Duration,
    /// Peak resident memory of all processes at the highest level, without kernel buffers.
    pub memory_bytes: u64,
    /// Size of the topics, which exist until the broker ends, and of the run directory.
    pub disk_bytes: u64,
    /// Sockets of the process that simulates the clients.
    pub connections: u64,
}

impl PlanEstimate {
    /// Returns the estimate of a run that starts its own broker.
    pub fn of(plan: &Plan) -> Self {
        let connections = plan.levels.iter().copied().max().unwrap_or(0);
        let mut estimate = Self::start(plan.broker_warm_up, connections);
        for point in plan.points() {
            for subject in plan.subjects() {
                for _ in 0..plan.repetitions {
                    estimate.add(plan, subject.architecture, point);
                }
            }
        }
        estimate
    }

    /// Returns the estimate of a sweep that starts its own broker.
    pub fn of_sweep(plan: &SweepPlan) -> Self {
        let mut estimate = Self::start(plan.broker_warm_up, 0);
        estimate.memory_bytes = BASE_BYTES;
        for _ in 0..plan.repetitions {
            estimate.sweep(plan);
        }
        estimate
    }

    /// Returns the estimate of starting the broker and warming it up.
    pub(crate) fn start(broker_warm_up: Duration, connections: u64) -> Self {
        Self {
            cells: 0,
            time: BROKER_START + broker_warm_up,
            memory_bytes: 0,
            disk_bytes: 0,
            connections,
        }
    }

    /// Returns the time of one cell, from starting its processes to its result.
    pub(crate) fn cell_time(plan: &Plan, architecture: Architecture, clients: u64) -> Duration {
        let ramp_s = clients as f64 / plan.ramp_per_s;
        // Late records extend a cell by at most the drain time; usually there are none.
        let setup = match architecture {
            Architecture::Gateway => GATEWAY_SETUP,
            _ => SETUP,
        };
        setup + Duration::from_secs_f64(ramp_s) + plan.warm_up + plan.hold + SETTLE
    }

    fn sweep(&mut self, plan: &SweepPlan) {
        let (sweep, load) = (&plan.sweep, plan.warm_up + plan.hold);
        // Kafka's own tools, or the other variant of an A/A test, run each cell again.
        // Starting them takes time.
        let is_twice = sweep.kafka_tools || plan.aa_test;
        let tools: u32 = if is_twice { 2 } else { 1 };
        for (size, target) in sweep.measured_producer_points() {
            self.cells += u64::from(tools);
            self.time += (SETUP + load + SETTLE) * tools;
            let bytes = (size + HEADERS_BYTES) as f64 * target as f64 * load.as_secs_f64();
            self.disk_bytes += LOGS_BYTES + bytes as u64 * u64::from(tools);
        }
        let fetches = sweep.fetch_sizes_bytes.len() as u32;
        if fetches > 0 {
            let read = Duration::from_secs_f64(sweep.consumer_records as f64 / CONSUMED_PER_S);
            self.cells += u64::from(fetches) * u64::from(tools);
            self.time += (SETUP + read) * fetches * tools + read;
            let record_bytes = sweep.consumer_record_bytes + HEADERS_BYTES;
            self.disk_bytes += sweep.consumer_records * record_bytes;
        }
    }

    fn add(&mut self, plan: &Plan, architecture: Architecture, point: PlanPoint) {
        let clients = point.clients;
        let load = plan.warm_up + plan.hold;
        self.cells += 1;
        self.time += Self::cell_time(plan, architecture, clients);
        let records = point.rate_per_s * load.as_secs_f64();
        let record_bytes = u64::from(plan.workload.size().unwrap_or(0)).max(RECORD_BYTES_MIN);
        self.disk_bytes += (records * record_bytes as f64) as u64;
        self.disk_bytes += LOGS_BYTES + (LOG_BYTES_PER_S * load.as_secs_f64()) as u64;
        self.memory_bytes = self.memory_bytes.max(memory_bytes(architecture, clients));
    }
}

fn memory_bytes(architecture: Architecture, clients: u64) -> u64 {
    let per_client = match architecture {
        Architecture::Groups | Architecture::Standalone => BROKER_BYTES_PER_CONSUMER + CLIENT_BYTES,
        Architecture::Gateway | Architecture::Floor => SESSION_BYTES + CLIENT_BYTES,
    };
    BASE_BYTES + clients * per_client
}

const BROKER_START: Duration = Duration::from_secs(10);
const SETUP: Duration = Duration::from_secs(3);
/// Includes starting the SDK client and its subscription.
const GATEWAY_SETUP: Duration = Duration::from_secs(5);
const SETTLE: Duration = Duration::from_secs(2);
/// Memory of broker, server, clients and producers at zero clients.
const BASE_BYTES: u64 = 650 << 20;
const BROKER_BYTES_PER_CONSUMER: u64 = 100 << 10;
const SESSION_BYTES: u64 = 8 << 10;
const CLIENT_BYTES: u64 = 4 << 10;
/// Records per second of a consumer of small records, a conservative value.
const CONSUMED_PER_S: f64 = 100e3;
const HEADERS_BYTES: u64 = 80;
/// Key, headers and the text before the value.
const RECORD_BYTES_MIN: u64 = 300;
const LOGS_BYTES: u64 = 60 << 10;
const LOG_BYTES_PER_S: f64 = 6e3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::AnyPlan;

    #[test]
    fn estimate_sums_all_cells() {
        let plan = crate::plan::tests::built_in("keyed");
        let quick = plan.quick("test").unwrap();
        let (full, quick) = (PlanEstimate::of(&plan), PlanEstimate::of(&quick));
        let cells = plan.points().len() * plan.subjects().len() * plan.repetitions as usize;
        assert_eq!(full.cells, cells as u64);
        assert_eq!(full.connections, plan.levels[plan.levels.len() - 1]);
        let loaded = (plan.warm_up + plan.hold) * u32::try_from(cells).unwrap();
        assert!(full.time > loaded && full.time < loaded * 3, "{full:?}");
        assert!(quick.time < full.time && quick.disk_bytes < full.disk_bytes);
        assert!(quick.memory_bytes < full.memory_bytes, "{quick:?}");
        assert!(quick.memory_bytes > 600 << 20, "{quick:?}");
    }

    #[test]
    fn quick_estimates_are_below_full_estimates() {
        for built_in in crate::plan::BUILT_IN {
            let plan = AnyPlan::built_in(built_in.name).unwrap().unwrap();
            let quick = plan.quick("test").unwrap();
            let (Some(full), Some(quick)) = (plan.estimate(), quick.estimate()) else {
                continue;
            };
            let name = built_in.name;
            assert!(
                quick.cells > 0 && quick.time < full.time,
                "{name}: {quick:?} {full:?}"
            );
            assert!(
                quick.disk_bytes <= full.disk_bytes,
                "{name}: {quick:?} {full:?}"
            );
        }
    }
}
