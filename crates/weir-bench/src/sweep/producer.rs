//! Producer cells of a sweep: one producer at one record size and rate.

use std::time::Duration;

use weir_stats::run::{
    Cell, LatencySummary, STAGE_PUBLISH_ACK, STAGE_RESPONSE, STAGE_SCHEDULE_LAG,
};
use weir_stats::{Histogram, NegativeCount};

use super::super::cell::CellContext;
use super::super::child::ProcessRole;
use super::super::collect::StageIntervals;
use super::super::observer::Observer;
use super::super::saturation;
use super::super::workers::push;
use super::topic::{delete_topic, new_topic};
use super::worker::SweepWorker;
use super::{figures, files};
use weir_load::worker::protocol::LatencyTag;

/// Measures the cell and writes its lines to the file in the tool's format.
pub(super) fn measure(
    context: &CellContext<'_>,
    (size, target): (u64, u64),
    cell: &mut Cell,
    observer: &mut dyn Observer,
) -> Result<(), String> {
    let plan = context.plan;
    let id = cell.id();
    let topic = match &plan.topic {
        Some(topic) => topic.clone(),
        None => new_topic(context, &id)?,
    };
    let mut cell_plan = plan.clone();
    cell_plan.workload.rate_per_s = target as f64;
    let cell_context = context.with_plan(&cell_plan);
    let args = args(&cell_context, &topic, (size, target), None);
    let measured = SweepWorker::start(&cell_context, &id, (ProcessRole::Produce, &args)).and_then(
        |mut worker| {
            worker.collected.stage_intervals = Some(StageIntervals {
                tag: LatencyTag::PublishAck,
                intervals: Vec::new(),
            });
            let window = worker.start_load();
            let timeout = plan.warm_up + plan.hold + plan.drain + SUMMARY_TIMEOUT;
            let finished = worker.finish(&window, timeout, observer);
            if finished.is_ok() {
                fill(context, cell, &worker, &window);
                files::write_producer(context, cell, &worker, (size, target))?;
            }
            worker.end();
            finished
        },
    );
    if plan.topic.is_none() {
        delete_topic(context.admin, &topic);
    }
    measured
}

/// Returns the arguments of a producer whose records are like the tool's: no key, no headers,
/// `size` bytes.
pub(super) fn args(
    context: &CellContext<'_>,
    topic: &str,
    (size, target): (u64, u64),
    count: Option<u64>,
) -> Vec<String> {
    let workload = &context.plan.workload;
    let mut args: Vec<String> = [
        "load",
        "produce",
        "--worker",
        "--no-stamp",
        "--kind",
        "random",
    ]
    .map(str::to_owned)
    .into();
    push(&mut args, "--bootstrap", &context.bootstrap);
    push(&mut args, "--topic", topic);
    push(&mut args, "--rate", target);
    push(&mut args, "--size", size);
    push(&mut args, "--producers", 1);
    push(&mut args, "--seed", workload.seed);
    push(&mut args, "--entropy", workload.entropy);
    push(&mut args, "--compression", &workload.compression);
    push(
        &mut args,
        "--drain",
        format!("{}ms", context.plan.drain.as_millis()),
    );
    if let Some(count) = count {
        push(&mut args, "--count", count);
    }
    args
}

fn fill(
    context: &CellContext<'_>,
    cell: &mut Cell,
    worker: &SweepWorker<'_>,
    window: &super::super::result::MeasuredWindow,
) {
    let span = (window.from_unix_ns, window.until_unix_ns);
    let collected = &worker.collected;
    let at = |unix_ns, name| collected.counter_at(ProcessRole::Produce, name, unix_ns);
    let in_span = |name| Some(at(span.1, name)? - at(span.0, name)?);
    let hold_s = window.hold_s();
    cell.hold_s = hold_s;
    cell.hlog_file = Some(worker.hlog_name.clone());
    let per_s = in_span("acked").map_or(0.0, |acked| acked / hold_s);
    cell.achieved_records_per_s = Some(per_s);
    for (tag, stage) in [
        (LatencyTag::Acknowledged, STAGE_RESPONSE),
        (LatencyTag::ScheduleLag, STAGE_SCHEDULE_LAG),
        (LatencyTag::PublishAck, STAGE_PUBLISH_ACK),
    ] {
        if let Some(histogram) = collected.stages.get(&tag) {
            let summary = LatencySummary::of(histogram, NegativeCount::default(), 1e-3);
            cell.latency.insert(stage.to_owned(), summary);
        }
    }
    let acked = collected
        .stages
        .get(&LatencyTag::PublishAck)
        .map_or(0, Histogram::count);
    cell.roles = worker.usage.roles(span, 1, acked);
    let machine = worker.usage.machine(span);
    let load = machine.as_ref().map(|machine| saturation::MachineLoad {
        busy_share: machine.busy_share,
        cores: super::super::environment::cores(),
    });
    cell.machine = machine;
    if let Some(found) = saturation::find(&cell.roles, load, None) {
        (cell.saturated_role, cell.saturation_reason) = (Some(found.role), Some(found.reason));
    }
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
