//! What a plan takes before it is run: time, memory and disk, reckoned from its own figures.
//!
//! The constants are what runs on one machine with 2 cores showed; they tell a minute from an hour, not more.

use std::time::Duration;

use super::{Architecture, Plan, PlanPoint, SweepPlan};

/// What a whole run needs if every level is held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanEstimate {
    /// Cells to run.
    pub cells: u64,
    /// From the first process to the report.
    pub time: Duration,
    /// Resident memory of all processes together at the highest level; kernel buffers come on top.
    pub memory_bytes: u64,
    /// Topics, which stay until the broker ends, and the run folder.
    pub disk_bytes: u64,
    /// Sockets of the process that holds the clients.
    pub connections: u64,
}

impl PlanEstimate {
    /// Of a plan with its broker.
    pub fn of(plan: &Plan) -> Self {
        let connections = plan.levels.iter().copied().max().unwrap_or(0);
        let mut estimate = Self {
            cells: 0,
            time: Self::start_time(plan),
            memory_bytes: 0,
            disk_bytes: 0,
            connections,
        };
        if let Some(sweep) = &plan.sweep {
            estimate.memory_bytes = BASE_BYTES;
            for _ in 0..plan.repetitions {
                estimate.sweep(plan, sweep);
            }
            return estimate;
        }
        let (points, subjects) = (plan.points(), plan.subjects());
        for point in &points {
            for subject in &subjects {
                for _ in 0..plan.repetitions {
                    estimate.add(plan, subject.architecture, *point);
                }
            }
        }
        estimate
    }

    /// Returns the time that starting the broker and preheating it take.
    pub(crate) fn start_time(plan: &Plan) -> Duration {
        BROKER_START + plan.preheat
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

    fn sweep(&mut self, plan: &Plan, sweep: &SweepPlan) {
        let load = plan.warm_up + plan.hold;
        // Each cell once more by Kafka's own tools, whose start takes its time.
        let tools: u32 = if sweep.kafka_tools { 2 } else { 1 };
        let most = sweep.mib_per_s_max.map_or(u64::MAX, |mib| mib << 20);
        for (size, target) in sweep.producer_points() {
            if size.saturating_mul(target) <= most {
                self.cells += u64::from(tools);
                self.time += (SETUP + load + SETTLE) * tools;
                let bytes = (size + HEADERS_BYTES) as f64 * target as f64 * load.as_secs_f64();
                self.disk_bytes += LOGS_BYTES + bytes as u64 * u64::from(tools);
            }
        }
        let fetches = sweep.fetch_sizes_bytes.len() as u32;
        if fetches > 0 {
            let read = Duration::from_secs_f64(sweep.messages as f64 / MESSAGES_PER_S);
            self.cells += u64::from(fetches) * u64::from(tools);
            self.time += (SETUP + read) * fetches * tools + read;
            self.disk_bytes += sweep.messages * (sweep.message_size_bytes + HEADERS_BYTES);
        }
    }

    fn add(&mut self, plan: &Plan, architecture: Architecture, point: PlanPoint) {
        let clients = point.clients;
        let load = plan.warm_up + plan.hold;
        self.cells += 1;
        self.time += Self::cell_time(plan, architecture, clients);
        let records = point.rate_per_s * load.as_secs_f64();
        let record_bytes = u64::from(plan.workload.size_bytes).max(RECORD_BYTES_LEAST);
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
/// The SDK's client is started and subscribes too.
const GATEWAY_SETUP: Duration = Duration::from_secs(5);
const SETTLE: Duration = Duration::from_secs(2);
/// Broker, server, clients and producers without a client.
const BASE_BYTES: u64 = 650 << 20;
const BROKER_BYTES_PER_CONSUMER: u64 = 100 << 10;
const SESSION_BYTES: u64 = 8 << 10;
const CLIENT_BYTES: u64 = 4 << 10;
/// A consumer of small messages, with room to spare.
const MESSAGES_PER_S: f64 = 100e3;
const HEADERS_BYTES: u64 = 80;
/// Key, headers and the text in front.
const RECORD_BYTES_LEAST: u64 = 300;
const LOGS_BYTES: u64 = 60 << 10;
const LOG_BYTES_PER_S: f64 = 6e3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_the_sum_of_its_cells() {
        let plan = Plan::built_in("keyed").unwrap().unwrap();
        let quick = plan.clone().with(&plan.quick.clone(), "test").unwrap();
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
    fn every_built_in_plan_takes_something_and_its_quick_form_less() {
        for built_in in crate::plan::BUILT_IN {
            let plan = Plan::built_in(built_in.name).unwrap().unwrap();
            let quick = plan.clone().with(&plan.quick.clone(), "test").unwrap();
            let (full, quick) = (PlanEstimate::of(&plan), PlanEstimate::of(&quick));
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
