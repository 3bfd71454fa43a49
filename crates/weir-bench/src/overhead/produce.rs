//! Runs Weir's producer through one subject.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use weir_stats::NegativeCount;
use weir_stats::run::{Cell, LatencySummary};

use super::context::{OverheadContext, RunFailure};
use super::measure::ResourceMeter;
use super::servers::Server;
use crate::BenchError;
use crate::child::{MESSAGES_QUEUED_MAX, ProcessRole, RoleProcess};
use crate::collect::Collected;
use weir_load::worker::protocol::{LatencyTag, Schedule, WorkerCommand};

/// Subject and load of a producer cell.
pub(super) struct ProduceRun<'a> {
    pub(super) server: &'a Server,
    pub(super) topic: &'a str,
    pub(super) records: u64,
    /// Records per second; `None`: the maximum rate.
    pub(super) rate: Option<u64>,
}

/// Writes the records and sets the results of the cell.
pub(super) fn run(
    context: &OverheadContext<'_>,
    job: &ProduceRun<'_>,
    cell: &mut Cell,
) -> Result<(), RunFailure> {
    let id = cell.id();
    let dir = context.dir.join(&id);
    std::fs::create_dir_all(&dir).map_err(|error| BenchError::file(&dir, error))?;
    let hlog = format!("{id}.hlog");
    let mut collected = Collected::new(&context.dir.join(&hlog), &id, context.clock.now_unix_ns())?;
    let mut meter = ResourceMeter::start(job.server, context.broker_pids, context.clock);
    let (messages, receiver) = mpsc::sync_channel(MESSAGES_QUEUED_MAX);
    let args = arguments(context, job);
    let mut worker = RoleProcess::worker(context.exe, &args, ProcessRole::Produce, &dir, messages)?;
    meter.client(ProcessRole::Produce.name(), worker.pid());
    let deadline = Instant::now() + RUN_TIMEOUT;
    let mut schedule = None;
    while !collected.closed.contains(&ProcessRole::Produce) {
        if context.stop.load(Ordering::Relaxed) {
            return Err(RunFailure::Interrupted);
        }
        if Instant::now() >= deadline {
            return Err(RunFailure::Failed(
                "the producer did not finish in time".to_owned(),
            ));
        }
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(message) => collected.take(message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if schedule.is_none() && collected.ready.contains_key(&ProcessRole::Produce) {
            let started = start_schedule(context, job);
            // An interval may start before the first record is due.
            collected.count_from_unix_ns = match nanos(context.plan.warm_up) {
                0 => 0,
                warm_up => started.start_unix_ns + warm_up,
            };
            worker.send(&WorkerCommand::Start(started));
            schedule = Some(started);
        }
        meter.sample();
    }
    collected.flush();
    let produce = collected.produced.get(&ProcessRole::Produce).cloned();
    let Some((produce, schedule)) = produce.zip(schedule) else {
        let log_tail = worker.log_tail();
        let reason = collected.errors.first().cloned().unwrap_or(log_tail);
        return Err(RunFailure::Failed(format!(
            "the producer exited unexpectedly: {reason}"
        )));
    };
    meter.finish(cell, produce.bytes_sent);
    cell.hlog_file = Some(hlog);
    cell.record_bytes_mean = Some(produce.bytes_sent as f64 / produce.sent.max(1) as f64);
    latencies(&collected, cell);
    rates(context, schedule.start_unix_ns, &collected, cell);
    for (text, count) in &produce.errors {
        cell.notes.push(format!("producer: {count} x {text}"));
    }
    if produce.acked < job.records {
        return Err(RunFailure::Failed(format!(
            "only {} of {} records were acknowledged",
            produce.acked, job.records
        )));
    }
    check_rate(job, cell)
}

/// Returns the producer's arguments: the plan has property names of Apache Kafka's client, the
/// producer needs those of librdkafka.
fn arguments(context: &OverheadContext<'_>, job: &ProduceRun<'_>) -> Vec<String> {
    let plan = context.plan;
    // A value starts with a timestamp and the producer's name.
    let text_bytes = plan.record_bytes.saturating_sub(VALUE_HEAD_BYTES);
    let rate = job.rate.map_or(UNTHROTTLED_PER_S, |rate| rate as f64);
    let mut args: Vec<String> = ["load", "produce", "--worker", "--kind", "base"]
        .map(str::to_owned)
        .into();
    let mut push = |name: &str, value: &dyn ToString| {
        args.push(name.to_owned());
        args.push(value.to_string());
    };
    push("--bootstrap", &job.server.address);
    push("--topic", &job.topic);
    push("--producers", &1);
    push("--size", &text_bytes);
    push("--rate", &rate);
    push("--count", &job.records);
    push("--drain", &"120s");
    for (name, value) in &plan.producer {
        match name.as_str() {
            "acks" => push("--acks", value),
            "linger.ms" => push("--linger", &format!("{value}ms")),
            "compression.type" => push("--compression", value),
            "buffer.memory" => {
                let kib = value.parse::<u64>().unwrap_or(0) / 1024;
                push(
                    "--kafka-property",
                    &format!("queue.buffering.max.kbytes={kib}"),
                );
            }
            _ => push("--kafka-property", &format!("{name}={value}")),
        }
    }
    args
}

/// Returns the schedule. With a rate, the warm-up is excluded by due time. Without one, all records
/// are due at once, and the warm-up is excluded by time intervals.
fn start_schedule(context: &OverheadContext<'_>, job: &ProduceRun<'_>) -> Schedule {
    let start_unix_ns = context.clock.now_unix_ns() + nanos(START_DELAY);
    let end = start_unix_ns + nanos(RUN_TIMEOUT);
    let warm_up = job.rate.map_or(0, |_| nanos(context.plan.warm_up));
    Schedule {
        start_unix_ns,
        measure_from_unix_ns: start_unix_ns + warm_up,
        measure_until_unix_ns: end,
        stop_unix_ns: end,
    }
}

fn latencies(collected: &Collected, cell: &mut Cell) {
    for (tag, histogram) in &collected.stages {
        let summary = LatencySummary::of(histogram, NegativeCount::default(), 1e-3);
        cell.latency.insert(tag.name().to_owned(), summary);
    }
    let Some(acked) = cell.latency.get(LatencyTag::PublishAck.name()) else {
        return;
    };
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    let figures = [
        ("latency_mean_ms", ms(acked.mean_us)),
        ("latency_p50_ms", ms(acked.p50_us)),
        ("latency_p95_ms", ms(acked.p95_us)),
        ("latency_p99_ms", ms(acked.p99_us)),
        ("latency_p999_ms", ms(acked.p999_us)),
        ("latency_max_ms", ms(acked.max_us)),
    ];
    let figures = figures
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    cell.figures.extend(figures);
}

/// Sets the acknowledged records per second, from the end of the warm-up to the last
/// acknowledgement.
fn rates(context: &OverheadContext<'_>, start: u64, collected: &Collected, cell: &mut Cell) {
    let reports = collected.progress.get(&ProcessRole::Produce);
    let Some(last) = reports.and_then(|all| all.last()) else {
        return;
    };
    let first = start + nanos(context.plan.warm_up);
    // A cell hardly longer than its warm-up has no steady part and counts completely.
    let is_long = last.unix_ns > first + nanos(context.plan.warm_up) / 2;
    let from = if is_long { first } else { start };
    let at = |unix_ns| collected.counter_at(ProcessRole::Produce, "acked", unix_ns);
    let (Some(before), Some(after)) =
        (at(from).filter(|_| is_long).or(Some(0.0)), at(last.unix_ns))
    else {
        return;
    };
    let seconds = last.unix_ns.saturating_sub(from) as f64 / 1e9;
    let per_s = (after - before) / seconds.max(1e-3);
    (cell.hold_s, cell.achieved_records_per_s) = (seconds, Some(per_s));
    let bytes = cell.record_bytes_mean.unwrap_or(0.0);
    let mib = per_s * bytes / f64::from(1 << 20);
    cell.figures.insert("records_per_s".to_owned(), per_s);
    cell.figures.insert("mib_per_s".to_owned(), mib);
    if !is_long {
        cell.notes
            .push("too short for a warm-up: the whole cell counts".to_owned());
    }
}

fn check_rate(job: &ProduceRun<'_>, cell: &Cell) -> Result<(), RunFailure> {
    let per_s = cell.achieved_records_per_s.unwrap_or(0.0);
    match job.rate.map(|rate| rate as f64) {
        Some(rate) if per_s < rate * RATE_SHARE_MIN => Err(RunFailure::Failed(format!(
            "reached {per_s:.0} of {rate:.0} records/s"
        ))),
        _ => Ok(()),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Length of the start of a value: `2026-11-21 23:45:00.000-pid-0-`.
const VALUE_HEAD_BYTES: u64 = 30;
/// Rate at which all records are due before the first is sent; the producer's queue limits the
/// rate.
const UNTHROTTLED_PER_S: f64 = 100_000_000.0;
const RATE_SHARE_MIN: f64 = 0.98;
const START_DELAY: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum duration of a cell; a longer one makes no progress.
const RUN_TIMEOUT: Duration = Duration::from_secs(1800);
