//! Consumer cells of a sweep: one consumer at one fetch size, on a topic that was filled before.

use std::time::Duration;

use weir_stats::run::Cell;

use super::super::cell::CellContext;
use super::super::child::ProcessRole;
use super::super::observer::Observer;
use super::super::workers::push;
use super::producer;
use super::topic::new_topic;
use super::worker::SweepWorker;
use super::{figures, files};
use crate::plan::SweepPlan;
use weir_load::worker::protocol::ScanSummary;

/// Returns the topic that consumers read: the plan's, or one that is filled on the first call.
pub(super) fn fill(
    context: &CellContext<'_>,
    sweep: &SweepPlan,
    filled: &mut Option<String>,
    observer: &mut dyn Observer,
) -> Result<String, String> {
    if let Some(topic) = context.plan.topic.as_ref().or(filled.as_ref()) {
        return Ok(topic.clone());
    }
    let (records, size) = (sweep.consumer_records, sweep.consumer_record_bytes);
    observer.note(&format!(
        "writing {records} records of {size} bytes for the consumers"
    ));
    let topic = new_topic(context, "consumer")?;
    let per_s = (FILL_BYTES_PER_S / size).clamp(1, FILL_PER_S_MAX);
    let mut plan = context.plan.clone();
    plan.warm_up = Duration::ZERO;
    // One extra second for a broker that is slow.
    plan.hold = Duration::from_secs(records / per_s + 1);
    let context = context.with_plan(&plan);
    let args = producer::args(&context, &topic, (size, per_s), Some(records));
    let mut worker = SweepWorker::start(&context, "fill", (ProcessRole::Produce, &args))?;
    let window = worker.start_load();
    let finished = worker.finish(&window, plan.hold + FILL_TIMEOUT, observer);
    let written = worker.collected.produced.get(&ProcessRole::Produce);
    let written = written.map_or(0, |summary| summary.acked);
    worker.end();
    finished?;
    if written < records {
        return Err(format!(
            "the broker accepted {written} of {records} records for the consumers"
        ));
    }
    *filled = Some(topic.clone());
    Ok(topic)
}

/// Measures the cell and writes its row to the file in the tool's format.
pub(super) fn measure(
    context: &CellContext<'_>,
    (topic, fetch_size): (&str, u64),
    cell: &mut Cell,
    observer: &mut dyn Observer,
) -> Result<(), String> {
    let records = figures::consumer_records(context.plan);
    let id = cell.id();
    let mut args: Vec<String> = ["load", "consume", "--worker", "--from-start"]
        .map(str::to_owned)
        .into();
    push(&mut args, "--bootstrap", &context.bootstrap);
    push(&mut args, "--topic", topic);
    push(&mut args, "--records", records);
    push(&mut args, "--fetch-size", fetch_size);
    let mut worker = SweepWorker::start(context, &id, (ProcessRole::Consume, &args))?;
    let window = worker.start_load();
    let finished = worker.finish(&window, READ_TIMEOUT, observer);
    let scan = worker.collected.scan.clone();
    if let (Ok(()), Some(scan)) = (&finished, &scan) {
        let span = (scan.started_unix_ns, scan.started_unix_ns + scan.elapsed_ns);
        cell.roles = worker.usage.roles(span, 1, scan.messages);
        cell.hlog_file = Some(worker.hlog_name.clone());
        let perf = files::write_consumer(context, cell, scan, fetch_size)?;
        figures::of_consumer(cell, &perf);
        add_scan(cell, scan);
    }
    worker.end();
    finished?;
    match scan.map_or(0, |scan| scan.messages) {
        read if read < records => Err(format!("only {read} of {records} records were received")),
        _ => Ok(()),
    }
}

fn add_scan(cell: &mut Cell, scan: &ScanSummary) {
    cell.hold_s = scan.elapsed_ns as f64 / 1e9;
    if cell.hold_s < SHORT_S {
        cell.notes.push(format!(
            "all records were read within {:.0} ms: use more records for a better result",
            cell.hold_s * 1e3
        ));
    }
    let fetches = scan.fetches as f64;
    cell.figures.insert("fetches".to_owned(), fetches);
    let wire = scan.wire_bytes_received as f64;
    cell.figures.insert("wire_bytes".to_owned(), wire);
    for (text, count) in &scan.errors {
        cell.notes.push(format!("{count} x {text}"));
    }
}

/// Fast enough to finish soon, slow enough for any broker.
const FILL_BYTES_PER_S: u64 = 20 << 20;
const FILL_PER_S_MAX: u64 = 20_000;
const FILL_TIMEOUT: Duration = Duration::from_secs(60);
const READ_TIMEOUT: Duration = Duration::from_secs(120);
const SHORT_S: f64 = 0.5;
