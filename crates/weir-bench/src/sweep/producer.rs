//! Producer cells of a sweep: one producer at one record size and rate.

use std::time::Duration;

use weir_engine::inventory::InventoryRole;
use weir_stats::Histogram;
use weir_stats::run::{Cell, STAGE_PUBLISH_ACK, STAGE_RESPONSE, STAGE_SCHEDULE_LAG};

use super::super::child::ProcessRole;
use super::super::collect;
use super::super::observer::{Live, Observer};
use super::super::processes::CellProcesses;
use super::super::result::MeasuredWindow;
use super::super::saturation;
use super::super::workers::WorkerArgs;
use super::context::SweepContext;
use super::{figures, files};
use crate::experiment::turns::CellResult;
use weir_load::worker::protocol::LatencyTag;

/// Measures the cell and writes its lines to the file in the tool's format.
pub(super) fn measure(
    context: SweepContext<'_>,
    (size, target): (u64, u64),
    cell: &mut Cell,
    observer: &mut dyn Observer,
) -> CellResult {
    let (plan, role) = (context.plan, ProcessRole::Produce);
    context.with_topic(&cell.id(), |topic| {
        let mut processes = CellProcesses::new(context.run, &cell.id())?;
        let args = args(context, topic, (size, target)).0;
        let timeout = plan.warm_up + plan.hold + plan.drain + SUMMARY_TIMEOUT;
        let times = [plan.warm_up, plan.hold, timeout];
        let window = processes.run_worker((role, &args), times, |live| {
            observer.live(&Live {
                offered_per_s: target as f64,
                ..live.clone()
            });
        })?;
        fill(context, cell, &processes, &window);
        files::write_producer(context, cell, &processes.collected, (size, target))
    })
}

/// Returns the arguments of a producer whose records are like the tool's: no key, no headers,
/// `size` bytes.
pub(super) fn args(
    context: SweepContext<'_>,
    topic: &str,
    (size, target): (u64, u64),
) -> WorkerArgs {
    let workload = &context.plan.workload;
    let machines = context.run.run_dir.options.machines.as_deref();
    let machines = machines.map_or(0, |it| it.with(InventoryRole::Producers).count());
    WorkerArgs::topic("produce", context.run.broker.connection(), topic)
        .flag("--no-stamp")
        .with("--kind", "random")
        .with("--rate", target)
        .with("--size", size)
        // One per machine.
        .with("--producers", machines.max(1))
        .with("--seed", workload.seed)
        .with("--entropy", workload.entropy)
        .with("--compression", &workload.compression)
        .with("--drain", format!("{}ms", context.plan.drain.as_millis()))
}

fn fill(
    context: SweepContext<'_>,
    cell: &mut Cell,
    processes: &CellProcesses<'_>,
    window: &MeasuredWindow,
) {
    let span = (window.from_unix_ns, window.until_unix_ns);
    let collected = &processes.collected;
    let in_span = |name| collected.counter_in(ProcessRole::Produce, name, span);
    let hold_s = window.hold_s();
    cell.hold_s = hold_s;
    cell.hlog_file = Some(processes.hlog_name.clone());
    let per_s = in_span("acked").map_or(0.0, |acked| acked / hold_s);
    cell.achieved_records_per_s = Some(per_s);
    for (tag, stage) in [
        (LatencyTag::Acknowledged, STAGE_RESPONSE),
        (LatencyTag::ScheduleLag, STAGE_SCHEDULE_LAG),
        (LatencyTag::PublishAck, STAGE_PUBLISH_ACK),
    ] {
        if let Some(histogram) = collected.stages.get(&tag) {
            cell.latency
                .insert(stage.to_owned(), collect::summary(histogram));
        }
    }
    let acked = collected.stages.get(&LatencyTag::PublishAck);
    let acked = acked.map_or(0, Histogram::count);
    cell.roles = processes.usage.roles(span, 1, acked);
    let load = processes.usage.set_machine(cell, span);
    saturation::set(cell, load, None);
    let Some(summary) = collected.produced.get(&ProcessRole::Produce) else {
        return;
    };
    for (text, count) in &summary.errors {
        cell.notes.push(format!("{count} x {text}"));
    }
    if summary.sent > 0 {
        cell.record_bytes_mean = Some(summary.bytes_sent as f64 / summary.sent as f64);
    }
    let wire = in_span("wire_bytes_sent").map(|bytes| bytes / hold_s);
    figures::of_producer(cell, per_s, wire);
    figures::evaluate_producer(cell, context.plan, (summary.queue_full, summary.failed));
}

const SUMMARY_TIMEOUT: Duration = Duration::from_secs(30);
