//! Consumer cells of a sweep: one consumer at one fetch size, on a topic that was filled before.

use std::time::Duration;

use weir_stats::run::Cell;

use super::super::child::ProcessRole;
use super::super::observer::Observer;
use super::super::processes::CellProcesses;
use super::super::workers::WorkerArgs;
use super::context::SweepContext;
use super::{figures, files, producer};
use crate::experiment::KEEP_ALL;
use crate::experiment::turns::{CellFailure, CellResult};
use weir_load::worker::protocol::ScanSummary;

/// Returns the topic that consumers read: the plan's, or one that is filled on the first call.
pub(super) fn fill(
    context: SweepContext<'_>,
    filled: &mut Option<String>,
    observer: &mut dyn Observer,
) -> CellResult<String> {
    if let Some(topic) = context.plan.topic.as_ref().or(filled.as_ref()) {
        return Ok(topic.clone());
    }
    let (sweep, role) = (&context.plan.sweep, ProcessRole::Produce);
    let (records, size) = (sweep.consumer_records, sweep.consumer_record_bytes);
    let text = format!("writing {records} records of {size} bytes for the consumers");
    observer.note(&text);
    let topic = context.new_topic("consumer", &KEEP_ALL)?;
    let per_s = (FILL_BYTES_PER_S / size).clamp(1, FILL_PER_S_MAX);
    // One extra second for a broker that is slow.
    let hold = Duration::from_secs(records / per_s + 1);
    let args = producer::args(context, &topic, (size, per_s)).with("--count", records);
    let mut processes = CellProcesses::new(context.run, "fill")?;
    let times = [Duration::ZERO, hold, hold + FILL_TIMEOUT];
    processes.run_worker((role, &args.0), times, |live| observer.live(live))?;
    let written = processes.collected.produced.get(&role);
    let written = written.map_or(0, |summary| summary.acked);
    if written < records {
        let text = format!("the broker accepted {written} of {records} records for the consumers");
        return Err(CellFailure::because(text));
    }
    *filled = Some(topic.clone());
    Ok(topic)
}

/// Measures the cell. Appends its row to the file that has the format of Kafka's consumer
/// performance tool.
pub(super) fn measure(
    context: SweepContext<'_>,
    (topic, fetch_size): (&str, u64),
    cell: &mut Cell,
    observer: &mut dyn Observer,
) -> CellResult {
    let (plan, role) = (context.plan, ProcessRole::Consume);
    let records = plan.sweep.consumer_records;
    let args = WorkerArgs::topic("consume", context.run.broker.connection(), topic)
        .flag("--from-start")
        .with("--records", records)
        .with("--fetch-size", fetch_size);
    let mut processes = CellProcesses::new(context.run, &cell.id())?;
    // One consumer reads all records.
    processes.is_unshared = true;
    let times = [plan.warm_up, plan.hold, READ_TIMEOUT];
    processes.run_worker((role, &args.0), times, |live| observer.live(live))?;
    let mut read = 0;
    if let Some(scan) = &processes.collected.scan {
        read = scan.messages;
        let span = (scan.started_unix_ns, scan.started_unix_ns + scan.elapsed_ns);
        cell.roles = processes.usage.roles(span, 1, read);
        cell.hlog_file = Some(processes.hlog_name.clone());
        let perf = files::write_consumer(context, scan, fetch_size)?;
        figures::of_consumer(cell, &perf);
        add_scan(cell, scan);
    }
    let text = format!("only {read} of {records} records were received");
    (read >= records)
        .then_some(())
        .ok_or_else(|| CellFailure::because(text))
}

fn add_scan(cell: &mut Cell, scan: &ScanSummary) {
    cell.hold_s = scan.elapsed_ns as f64 / 1e9;
    if cell.hold_s < SHORT_S {
        cell.notes.push(format!(
            "all records were read within {:.0} ms: use more records for a better result",
            cell.hold_s * 1e3
        ));
    }
    let (fetches, wire) = (scan.fetches as f64, scan.wire_bytes_received as f64);
    let figures = [("fetches", fetches), ("wire_bytes", wire)];
    cell.figures
        .extend(figures.map(|(name, value)| (name.to_owned(), value)));
    let errors = scan.errors.iter();
    cell.notes
        .extend(errors.map(|(text, count)| format!("{count} x {text}")));
}

/// Rate at which the topic is filled: it is full soon, and any broker can store as much.
const FILL_BYTES_PER_S: u64 = 20 << 20;
const FILL_PER_S_MAX: u64 = 20_000;
const FILL_TIMEOUT: Duration = Duration::from_secs(60);
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// A cell that ends sooner gets a note, because starting up is a large part of its time.
const SHORT_S: f64 = 0.5;
