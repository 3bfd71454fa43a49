//! Runs one client through one subject: Weir's consumer, and Apache Kafka's performance tools.

use std::time::{Duration, Instant};

use weir_kafka::{
    BorrowedRecord, IngestConfig, KafkaIngest, KafkaSettings, SourceError, StartFrom,
};
use weir_lab::KafkaTools;
use weir_stats::run::Cell;

use super::context::OverheadJob;
use super::cost::CostMeter;
use crate::child::ProcessRole;
use crate::experiment::turns::{CellFailure, CellResult};
use crate::{kafka_tools, sweep};

/// Reads all records of a topic at the maximum rate and sets the results of the cell.
pub(super) fn consume(job: OverheadJob<'_>, cell: &mut Cell) -> CellResult {
    let mut meter = CostMeter::start(job);
    // The consumer runs in this process.
    let own = std::process::id();
    meter.usage.watch(ProcessRole::Consume, &[own]);
    meter.ready(ProcessRole::Consume);
    let failed = |error: SourceError| CellFailure::because(error.to_string());
    let mut source = KafkaIngest::start(&IngestConfig {
        kafka: KafkaSettings {
            bootstrap_servers: job.server.address.clone(),
            ..job
                .context
                .run
                .broker
                .kafka
                .clone()
                .with_property("check.crcs", true)
        },
        client_id: "weir-bench-consume".to_owned(),
        topics: vec![job.topic.to_owned()],
        from: StartFrom::Earliest,
        ..IngestConfig::default()
    })
    .map_err(failed)?;
    let mut reader = source.reader();
    let mut batch: Vec<BorrowedRecord<'_>> = Vec::with_capacity(RECORDS_PER_POLL);
    let (mut seen, mut bytes) = (0_u64, 0_u64);
    let (mut first, mut last) = (None, Instant::now());
    while seen < job.records {
        if job.context.run.run_dir.is_stopped() {
            return Err(CellFailure::Interrupted);
        }
        if last.elapsed() > IDLE_TIMEOUT {
            let (records, idle_s) = (job.records, IDLE_TIMEOUT.as_secs());
            let text = format!("received {seen} of {records} records, then none for {idle_s} s");
            return Err(CellFailure::because(text));
        }
        batch.clear();
        reader
            .poll(POLL, RECORDS_PER_POLL, &mut batch)
            .map_err(failed)?;
        for lent in &batch {
            let record = lent.record(&mut 0);
            bytes += record.value.map_or(0, <[u8]>::len) as u64;
        }
        if !batch.is_empty() {
            // Time starts with the first batch, which does not count: the assignment is not part of
            // fetching.
            last = Instant::now();
            first.get_or_insert((last, bytes, batch.len() as u64));
            seen += batch.len() as u64;
        }
        meter.sample();
    }
    meter.finish(cell, bytes);
    if let Some((start, bytes_before, records_before)) = first {
        let seconds = last.duration_since(start).as_secs_f64().max(1e-3);
        cell.hold_s = seconds;
        cell.record_bytes_mean = Some(bytes as f64 / seen.max(1) as f64);
        let per_s = (seen - records_before) as f64 / seconds;
        let bytes_per_s = (bytes - bytes_before) as f64 / seconds;
        set_rate(cell, per_s, bytes_per_s / f64::from(1 << 20));
    }
    Ok(())
}

pub(super) fn set_rate(cell: &mut Cell, records_per_s: f64, mib_per_s: f64) {
    cell.achieved_records_per_s = Some(records_per_s);
    set_figures(
        cell,
        [("records_per_s", records_per_s), ("mib_per_s", mib_per_s)],
    );
}

fn set_figures<const N: usize>(cell: &mut Cell, figures: [(&str, f64); N]) {
    let figures = figures.map(|(name, value)| (name.to_owned(), value));
    cell.figures.extend(figures);
}

/// Runs `kafka-producer-perf-test`; its percentiles are whole milliseconds.
pub(super) fn kafka_produce(
    tools: &KafkaTools,
    job: OverheadJob<'_>,
    cell: &mut Cell,
) -> CellResult {
    let plan = job.context.plan;
    let bytes = plan.record_bytes;
    let mut command = kafka_tools::producer(tools, job.topic, (job.records, bytes), job.rate);
    let warm_up = (job.records as f64 * WARM_UP_SHARE) as u64;
    let properties = plan.producer.iter();
    let connection = job.context.run.broker.connection_to(&job.server.address);
    kafka_tools::add_client(&mut command, connection);
    command
        .args(["--bootstrap-server", &job.server.address])
        .args(["--warmup-records", &warm_up.to_string()])
        .arg("--command-property")
        .args(properties.map(|(name, value)| format!("{name}={value}")));
    let output = run_tool(command, job, cell)?;
    set_producer_figures(cell, &output)
}

fn set_producer_figures(cell: &mut Cell, output: &str) -> CellResult {
    let line = kafka_tools::summary(output)?;
    cell.achieved_records_per_s = Some(line.records_per_s);
    cell.figures.extend(sweep::line_figures(&line));
    let tail = line.tail.unwrap_or_default();
    let tail = [
        ("latency_p50_ms", tail.p50_ms as f64),
        ("latency_p95_ms", tail.p95_ms as f64),
        ("latency_p99_ms", tail.p99_ms as f64),
        ("latency_p999_ms", tail.p999_ms as f64),
    ];
    set_figures(cell, tail);
    Ok(())
}

/// Runs `kafka-consumer-perf-test`; its fetch rates exclude the time to join the group.
pub(super) fn kafka_consume(
    tools: &KafkaTools,
    job: OverheadJob<'_>,
    cell: &mut Cell,
) -> CellResult {
    let group = format!("{}-{}", job.topic, cell.id());
    let connection = job.context.run.broker.connection_to(&job.server.address);
    let read = (connection, job.topic);
    let mut command = kafka_tools::consumer(tools, read, job.records, &group);
    command.args(["--timeout", "60000"]);
    let output = run_tool(command, job, cell)?;
    set_consumer_figures(cell, &output, job.records)
}

fn set_consumer_figures(cell: &mut Cell, output: &str, records: u64) -> CellResult {
    let row = kafka_tools::row(output, records)?;
    set_rate(cell, row.fetch_messages_per_s, row.fetch_mib_per_s);
    let times = [
        ("with_join_records_per_s", row.messages_per_s),
        ("rebalance_time_ms", row.rebalance_ms as f64),
        ("fetch_time_ms", row.fetch_ms as f64),
    ];
    set_figures(cell, times);
    Ok(())
}

fn run_tool(
    command: std::process::Command,
    job: OverheadJob<'_>,
    cell: &mut Cell,
) -> CellResult<String> {
    let (context, bytes) = (job.context, job.context.plan.record_bytes);
    let path = context.run.run_dir.path.join(format!("{}.txt", cell.id()));
    let mut meter = CostMeter::start(job);
    let tool = (&mut meter.usage, ProcessRole::KafkaTool);
    let output = kafka_tools::run(context.run, command, &path, tool, TOOL_TIMEOUT)?;
    cell.record_bytes_mean = Some(bytes as f64);
    meter.finish(cell, job.records * bytes);
    Ok(output)
}

const RECORDS_PER_POLL: usize = 500;
const POLL: Duration = Duration::from_millis(50);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Share of the records that are warm-up for the JVM.
const WARM_UP_SHARE: f64 = 0.15;
const TOOL_TIMEOUT: Duration = Duration::from_secs(1800);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producer_output_is_parsed() {
        let output = "284910 records sent, 56982.0 records/sec (55.65 MB/sec), \
                      7.3 ms avg latency, 294.0 ms max latency.\n\
                      10000000 records sent, 68342.422876 records/sec (66.74 MB/sec), \
                      3.92 ms avg latency, 592.00 ms max latency, \
                      0 ms 50th, 1 ms 95th, 116 ms 99th, 534 ms 99.9th.\n";
        let mut cell = Cell::default();
        set_producer_figures(&mut cell, output).unwrap();
        for (name, value) in [
            ("records_per_s", 68342.422876),
            ("mib_per_s", 66.74),
            ("latency_mean_ms", 3.92),
            ("latency_max_ms", 592.0),
            ("latency_p50_ms", 0.0),
            ("latency_p95_ms", 1.0),
            ("latency_p99_ms", 116.0),
            ("latency_p999_ms", 534.0),
        ] {
            assert_eq!(cell.figures[name], value, "{name}");
        }
        assert_eq!(cell.figures.len(), 8);
        let cut = "284910 records sent, 56982.0 records/sec";
        assert!(set_producer_figures(&mut cell, cut).is_err());
    }

    #[test]
    fn consumer_output_is_parsed() {
        let output = "start.time, end.time, data.consumed.in.MB, MB.sec, \
                      data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, \
                      fetch.MB.sec, fetch.nMsg.sec\n\
                      2026-11-21 20:00:00:000, 2026-11-21 20:00:04:000, 976.5625, 244.1406, \
                      1000000, 250000.0000, 3500, 500, 1953.1250, 2000000.0000\n";
        let mut cell = Cell::default();
        set_consumer_figures(&mut cell, output, 1_000_000).unwrap();
        assert_eq!(cell.figures["records_per_s"], 2_000_000.0);
        assert_eq!(cell.figures["with_join_records_per_s"], 250_000.0);
        assert_eq!(cell.figures["fetch_time_ms"], 500.0);
        assert!(set_consumer_figures(&mut cell, "nothing", 1).is_err());
        let error = set_consumer_figures(&mut cell, output, 1_000_001).unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("ended after 1000000 of 1000001"), "{text}");
    }
}
