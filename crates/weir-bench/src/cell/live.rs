//! State of a running cell for the progress display.

use weir_load::worker::protocol::WorkerProgress;

use super::spec::CellSpec;
use crate::child::ProcessRole;
use crate::observer::Live;
use crate::plan::{Architecture, Plan};
use crate::processes::CellProcesses;
use crate::workers::receiving_role;

pub(super) fn live(
    plan: &Plan,
    spec: CellSpec<'_>,
    processes: &CellProcesses<'_>,
    phase: &'static str,
    elapsed_s: f64,
) -> Live {
    let collected = &processes.collected;
    let reports = |role| collected.progress.get(&role).map(Vec::as_slice);
    let last_two = |role| match reports(role) {
        Some([.., before, last]) => Some((before, last)),
        _ => None,
    };
    let receiving = receiving_role(spec.architecture);
    let (produced, received) = (last_two(ProcessRole::Produce), last_two(receiving));
    let is_moving = elapsed_s > 0.0;
    let last = received.map(|(_, last)| last).filter(|_| is_moving);
    let connected = reports(receiving).and_then(|all| all.last()?.counters.get("connected"));
    let ready = collected.ready.get(&receiving);
    let backlog = produced
        .zip(received)
        .and_then(|((_, produced), (_, received))| {
            let now_unix_ns = produced.unix_ns.min(received.unix_ns);
            collected.backlog_at(receiving, now_unix_ns, fan_out(plan, spec))
        });
    Live {
        phase,
        elapsed_s,
        total_s: (plan.warm_up + plan.hold).as_secs_f64(),
        connected: connected.or(ready).copied().unwrap_or(0),
        clients: spec.clients,
        offered_per_s: plan.workload.rate_per_s,
        achieved_per_s: produced.and_then(|pair| rate(pair, "acked")),
        delivered_per_s: received.and_then(|pair| rate(pair, "updates")),
        p50_us: last.and_then(|progress| Some(progress.p50_us? as f64)),
        p99_us: last.and_then(|progress| Some(progress.p99_us? as f64)),
        lag_p99_us: produced.and_then(|(_, last)| Some(last.p99_us? as f64)),
        backlog: backlog.filter(|_| is_moving),
        cpu_cores: processes.usage.cores_at(u64::MAX),
    }
}

/// Returns the average number of deliveries per record.
fn fan_out(plan: &Plan, spec: CellSpec<'_>) -> f64 {
    match spec.architecture {
        Architecture::Gateway | Architecture::Floor => {
            plan.clients.deliveries_per_record(spec.clients)
        }
        plain => plan.receivers_per_record(plain, spec.clients),
    }
}

fn rate((before, last): (&WorkerProgress, &WorkerProgress), counter: &str) -> Option<f64> {
    let span_s = last.unix_ns.saturating_sub(before.unix_ns) as f64 / 1e9;
    let (before, last) = (before.counters.get(counter)?, last.counters.get(counter)?);
    (span_s > 0.0).then(|| last.saturating_sub(*before) as f64 / span_s)
}

pub(super) const SECOND_NS: u64 = 1_000_000_000;
