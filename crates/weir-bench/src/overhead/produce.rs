//! Runs Weir's producer through one subject.

use std::time::Duration;

use weir_stats::run::Cell;

use super::clients::set_rate;
use super::context::OverheadJob;
use super::cost;
use crate::child::ProcessRole;
use crate::collect::{self, Collected};
use crate::experiment::turns::{CellFailure, CellResult};
use crate::processes::{CellProcesses, READY_TIMEOUT};
use crate::workers::WorkerArgs;
use weir_load::clock::nanos;
use weir_load::worker::protocol::{LatencyTag, Schedule, WorkerCommand};

/// Writes the records and sets the results of the cell.
pub(super) fn run(job: OverheadJob<'_>, cell: &mut Cell) -> CellResult {
    let (context, role) = (job.context, ProcessRole::Produce);
    let mut processes = CellProcesses::new(context.run, &cell.id())?;
    let from_unix_ns = processes.now_unix_ns();
    processes.usage.watch(ProcessRole::Proxy, &job.server.pids);
    processes.usage.ready(ProcessRole::Proxy, from_unix_ns);
    // Without priority: the cost of all processes is compared.
    processes.start_plain(role, &arguments(job).0)?;
    processes.wait_ready(role, READY_TIMEOUT, |_| {})?;
    let schedule = schedule(job, processes.now_unix_ns());
    // An interval may start before the first record is due.
    processes.collected.count_from_unix_ns = match nanos(context.plan.warm_up) {
        0 => 0,
        warm_up => schedule.start_unix_ns + warm_up,
    };
    processes.send(role, &WorkerCommand::Start(schedule));
    let is_final = |events: &Collected| events.is_final(role);
    let tick = |processes: &mut CellProcesses<'_>, now_unix_ns| {
        processes.usage.read(now_unix_ns);
        now_unix_ns + nanos(cost::SAMPLE_INTERVAL)
    };
    let what = |_: &mut Collected| "the producer".to_owned();
    processes.wait(what, RUN_TIMEOUT, is_final, tick)?;
    let until_unix_ns = processes.now_unix_ns();
    processes.usage.read(until_unix_ns);
    processes.collected.flush();
    processes.end();
    let collected = &processes.collected;
    let Some(produced) = collected.produced.get(&role) else {
        return Ok(());
    };
    let span = (from_unix_ns, until_unix_ns);
    cost::set(cell, &processes.usage, span, produced.bytes_sent);
    cell.hlog_file = Some(processes.hlog_name.clone());
    cell.record_bytes_mean = Some(produced.bytes_sent as f64 / produced.sent.max(1) as f64);
    latencies(collected, cell);
    rates(job, schedule.start_unix_ns, collected, cell);
    for (text, count) in &produced.errors {
        cell.notes.push(format!("producer: {count} x {text}"));
    }
    if produced.acked < job.records {
        return Err(CellFailure::because(format!(
            "only {} of {} records were acknowledged",
            produced.acked, job.records
        )));
    }
    check_rate(job, cell)
}

/// Returns the producer's arguments: the plan has property names of Apache Kafka's client, the
/// producer needs those of librdkafka.
fn arguments(job: OverheadJob<'_>) -> WorkerArgs {
    let plan = job.context.plan;
    let connection = job.context.run.broker.connection_to(&job.server.address);
    let mut args = WorkerArgs::topic("produce", connection, job.topic)
        .with("--kind", "base")
        .with("--producers", 1)
        // A value starts with a timestamp and the producer's name.
        .with("--size", plan.record_bytes.saturating_sub(VALUE_HEAD_BYTES))
        .with("--rate", job.rate.unwrap_or(UNTHROTTLED_PER_S))
        .with("--count", job.records)
        .with("--drain", "120s");
    for (name, value) in &plan.producer {
        args = match name.as_str() {
            "acks" => args.with("--acks", value),
            "linger.ms" => args.with("--linger", format!("{value}ms")),
            "compression.type" => args.with("--compression", value),
            "buffer.memory" => {
                let kib = value.parse::<u64>().unwrap_or(0) / 1024;
                let property = format!("queue.buffering.max.kbytes={kib}");
                args.with("--kafka-property", property)
            }
            _ => args.with("--kafka-property", format!("{name}={value}")),
        };
    }
    args
}

/// Returns the schedule. With a rate, the warm-up is excluded by due time. Without one, all records
/// are due at once, and the warm-up is excluded by time intervals.
fn schedule(job: OverheadJob<'_>, now_unix_ns: u64) -> Schedule {
    let start_unix_ns = now_unix_ns + nanos(START_DELAY);
    let end_unix_ns = start_unix_ns + nanos(RUN_TIMEOUT);
    let warm_up = job.rate.map_or(0, |_| nanos(job.context.plan.warm_up));
    Schedule {
        start_unix_ns,
        measure_from_unix_ns: start_unix_ns + warm_up,
        measure_until_unix_ns: end_unix_ns,
        stop_unix_ns: end_unix_ns,
    }
}

fn latencies(collected: &Collected, cell: &mut Cell) {
    for (tag, histogram) in &collected.stages {
        let summary = collect::summary(histogram);
        cell.latency.insert(tag.name().to_owned(), summary);
    }
    let Some(acked) = cell.latency.get(LatencyTag::PublishAck.name()) else {
        return;
    };
    let figures = [
        ("latency_mean_ms", acked.mean_us),
        ("latency_p50_ms", acked.p50_us),
        ("latency_p95_ms", acked.p95_us),
        ("latency_p99_ms", acked.p99_us),
        ("latency_p999_ms", acked.p999_us),
        ("latency_max_ms", acked.max_us),
    ];
    let figures = figures.into_iter();
    let figures = figures.filter_map(|(name, us)| Some((name.to_owned(), us? / 1e3)));
    cell.figures.extend(figures);
}

/// Sets the acknowledged records per second, from the end of the warm-up to the last
/// acknowledgement.
fn rates(job: OverheadJob<'_>, start: u64, collected: &Collected, cell: &mut Cell) {
    let reports = collected.progress.get(&ProcessRole::Produce);
    let Some(last) = reports.and_then(|all| all.last()) else {
        return;
    };
    let warm_up = nanos(job.context.plan.warm_up);
    let first = start + warm_up;
    // A cell hardly longer than its warm-up has no steady part and counts completely.
    let is_long = last.unix_ns > first + warm_up / 2;
    let from = if is_long { first } else { start };
    let at = |unix_ns| collected.counter_at(ProcessRole::Produce, "acked", unix_ns);
    let (Some(before), Some(after)) =
        (at(from).filter(|_| is_long).or(Some(0.0)), at(last.unix_ns))
    else {
        return;
    };
    let seconds = last.unix_ns.saturating_sub(from) as f64 / 1e9;
    let per_s = (after - before) / seconds.max(1e-3);
    cell.hold_s = seconds;
    let bytes = cell.record_bytes_mean.unwrap_or(0.0);
    set_rate(cell, per_s, per_s * bytes / f64::from(1 << 20));
    if !is_long {
        let note = "too short for a warm-up: the whole cell counts";
        cell.notes.push(note.to_owned());
    }
}

fn check_rate(job: OverheadJob<'_>, cell: &Cell) -> CellResult {
    let per_s = cell.achieved_records_per_s.unwrap_or(0.0);
    match job.rate.map(|rate| rate as f64) {
        Some(rate) if per_s < rate * RATE_SHARE_MIN => Err(CellFailure::because(format!(
            "reached {per_s:.0} of {rate:.0} records/s"
        ))),
        _ => Ok(()),
    }
}

/// Length of the start of a value: `2026-11-21 23:45:00.000-pid-0-`.
const VALUE_HEAD_BYTES: u64 = 30;
/// Rate at which all records are due before the first is sent; the producer's queue limits the
/// rate.
const UNTHROTTLED_PER_S: u64 = 100_000_000;
const RATE_SHARE_MIN: f64 = 0.98;
const START_DELAY: Duration = Duration::from_millis(200);
/// Maximum duration of a cell; a longer one makes no progress.
const RUN_TIMEOUT: Duration = Duration::from_secs(1800);
