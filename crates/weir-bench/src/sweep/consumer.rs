//! One consumer at one fetch size, on a topic that was filled before.

use std::time::Duration;

use weir_stats::run::Cell;

use super::super::cell::CellContext;
use super::super::child::ProcessRole;
use super::super::observer::Observer;
use super::super::workers::push;
use super::producer::{self, new_topic};
use super::worker::SweepWorker;
use super::{figures, files};
use crate::plan::SweepPlan;
use weir_load::worker::protocol::ScanSummary;

/// The topic that consumers read: the plan's, or one that is filled the first time it is asked for.
pub(super) fn fill(
    context: &CellContext<'_>,
    sweep: &SweepPlan,
    filled: &mut Option<String>,
    observer: &mut dyn Observer,
) -> Result<String, String> {
    if let Some(topic) = context.plan.topic.as_ref().or(filled.as_ref()) {
        return Ok(topic.clone());
    }
    let (messages, size) = (sweep.messages, sweep.message_size_bytes);
    observer.note(&format!(
        "writing {messages} messages of {size} bytes to be read"
    ));
    let topic = new_topic(context, "consumer")?;
    let per_s = (FILL_BYTES_PER_S / size).clamp(1, FILL_PER_S_MAX);
    let mut plan = context.plan.clone();
    plan.warm_up = Duration::ZERO;
    // All of it, and some time for a broker that takes it slowly.
    plan.hold = Duration::from_secs(messages / per_s + 1);
    let context = context.with_plan(&plan);
    let args = producer::args(&context, &topic, (size, per_s), Some(messages));
    let mut worker = SweepWorker::start(&context, "fill", (ProcessRole::Produce, &args))?;
    let window = worker.begin();
    let finished = worker.finish(&window, plan.hold + FILL_WITHIN, observer);
    let written = worker.collected.produced.get(&ProcessRole::Produce);
    let written = written.map_or(0, |summary| summary.acked);
    worker.end();
    finished?;
    if written < messages {
        return Err(format!(
            "the broker took {written} of {messages} messages to be read"
        ));
    }
    *filled = Some(topic.clone());
    Ok(topic)
}

/// Fills the cell, and writes the file of the tool's format.
pub(super) fn measure(
    context: &CellContext<'_>,
    (topic, fetch_size): (&str, u64),
    cell: &mut Cell,
    observer: &mut dyn Observer,
) -> Result<(), String> {
    let messages = figures::messages(context.plan);
    let id = cell.id();
    let mut args: Vec<String> = ["load", "consume", "--worker", "--from-start"]
        .map(str::to_owned)
        .into();
    push(&mut args, "--bootstrap", &context.bootstrap);
    push(&mut args, "--topic", topic);
    push(&mut args, "--records", messages);
    push(&mut args, "--fetch-size", fetch_size);
    let mut worker = SweepWorker::start(context, &id, (ProcessRole::Consume, &args))?;
    let window = worker.begin();
    let finished = worker.finish(&window, READ_WITHIN, observer);
    let scan = worker.collected.scan.clone();
    if let (Ok(()), Some(scan)) = (&finished, &scan) {
        let span = (scan.started_unix_ns, scan.started_unix_ns + scan.elapsed_ns);
        cell.roles = worker.usage.roles(span, 1, scan.messages);
        cell.hlog_file = Some(worker.hlog_name.clone());
        let perf = files::write_consumer(context, cell, scan, fetch_size)?;
        figures::of_consumer(cell, &perf);
        told(cell, scan);
    }
    worker.end();
    finished?;
    match scan.map_or(0, |scan| scan.messages) {
        read if read < messages => Err(format!("{read} of {messages} messages came")),
        _ => Ok(()),
    }
}

fn told(cell: &mut Cell, scan: &ScanSummary) {
    cell.hold_s = scan.elapsed_ns as f64 / 1e9;
    if cell.hold_s < SHORT_S {
        cell.notes.push(format!(
            "all was read within {:.0} ms: more messages tell more",
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

/// Fast enough not to be waited for, slow enough for any broker.
const FILL_BYTES_PER_S: u64 = 20 << 20;
const FILL_PER_S_MAX: u64 = 20_000;
const FILL_WITHIN: Duration = Duration::from_secs(60);
const READ_WITHIN: Duration = Duration::from_secs(120);
const SHORT_S: f64 = 0.5;
