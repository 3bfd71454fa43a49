//! Runs Apache Kafka's performance tools through one subject. Their output is stored unchanged.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_lab::KafkaTools;
use weir_stats::run::Cell;

use super::context::{OverheadContext, RunFailure};
use super::measure::ResourceMeter;
use super::produce::ProduceRun;
use super::servers::Server;
use crate::BenchError;

/// Runs `kafka-producer-perf-test`; its percentiles are whole milliseconds.
pub(super) fn produce(
    context: &OverheadContext<'_>,
    tools: &KafkaTools,
    job: &ProduceRun<'_>,
    cell: &mut Cell,
) -> Result<(), RunFailure> {
    let plan = context.plan;
    let mut command = tools.command("org.apache.kafka.tools.ProducerPerformance");
    let warm_up = (job.records as f64 * WARM_UP_SHARE) as u64;
    let rate = job
        .rate
        .map_or_else(|| "-1".to_owned(), |rate| rate.to_string());
    command
        .args([
            "--bootstrap-server",
            &job.server.address,
            "--topic",
            job.topic,
        ])
        .args(["--num-records", &job.records.to_string()])
        .args(["--record-size", &plan.record_bytes.to_string()])
        .args(["--throughput", &rate])
        .args(["--warmup-records", &warm_up.to_string()])
        .arg("--command-property")
        .args(
            plan.producer
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
    let bytes = job.records * plan.record_bytes;
    let output = run(context, job.server, command, bytes, cell)?;
    let found = producer_figures(&output).ok_or_else(|| no_result(&output))?;
    cell.achieved_records_per_s = found.first().map(|(_, per_s)| *per_s);
    cell.record_bytes_mean = Some(plan.record_bytes as f64);
    let figures = found
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    cell.figures.extend(figures);
    Ok(())
}

/// Runs `kafka-consumer-perf-test`; its fetch rates exclude the time to join the group.
pub(super) fn consume(
    context: &OverheadContext<'_>,
    tools: &KafkaTools,
    server: &Server,
    (topic, records): (&str, u64),
    cell: &mut Cell,
) -> Result<(), RunFailure> {
    let mut command = tools.command("org.apache.kafka.tools.ConsumerPerformance");
    command
        .args(["--bootstrap-server", &server.address, "--topic", topic])
        .args(["--num-records", &records.to_string()])
        .args(["--group", &format!("{topic}-{}", cell.id())])
        .args(["--timeout", "60000"]);
    let bytes = records * context.plan.record_bytes;
    let output = run(context, server, command, bytes, cell)?;
    let found = consumer_figures(&output).ok_or_else(|| no_result(&output))?;
    cell.achieved_records_per_s = found.first().map(|(_, per_s)| *per_s);
    cell.record_bytes_mean = Some(context.plan.record_bytes as f64);
    let figures = found
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    cell.figures.extend(figures);
    Ok(())
}

/// Runs a tool; its output is a file in the run directory.
fn run(
    context: &OverheadContext<'_>,
    server: &Server,
    mut command: Command,
    bytes: u64,
    cell: &mut Cell,
) -> Result<String, RunFailure> {
    let path: PathBuf = context.dir.join(format!("{}.txt", cell.id()));
    let file = File::create(&path).map_err(|error| BenchError::file(&path, error))?;
    let errors = file
        .try_clone()
        .map_err(|error| BenchError::file(&path, error))?;
    let mut meter = ResourceMeter::start(server, context.broker_pids, context.clock);
    let spawned = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn();
    let mut child = RunningTool(spawned.map_err(|source| BenchError::Spawn {
        role: "a tool of Apache Kafka",
        source,
    })?);
    meter.client("kafka-tool", child.0.id());
    let deadline = Instant::now() + TOOL_TIMEOUT;
    while child.0.try_wait().ok().flatten().is_none() {
        if context.stop.load(Ordering::Relaxed) {
            return Err(RunFailure::Interrupted);
        }
        if Instant::now() >= deadline {
            return Err(RunFailure::Failed(
                "the tool did not finish in time".to_owned(),
            ));
        }
        std::thread::sleep(POLL_INTERVAL);
        meter.sample();
    }
    meter.finish(cell, bytes);
    fs::read_to_string(&path).map_err(|error| BenchError::file(&path, error).into())
}

/// Running tool; killed when dropped.
struct RunningTool(Child);

impl Drop for RunningTool {
    fn drop(&mut self) {
        // Both calls fail only if the process has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn no_result(output: &str) -> RunFailure {
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    RunFailure::Failed(format!(
        "the tool printed no result; last output: {}",
        last.unwrap_or("(empty)")
    ))
}

/// Parses the last summary of the output; with a warm-up, it covers the steady part only.
fn producer_figures(output: &str) -> Option<Vec<(&'static str, f64)>> {
    let line = output.lines().rev().find(|line| line.contains(" 99.9th"))?;
    let number = |unit: &str| {
        let before = line.split(unit).next()?;
        before
            .rsplit([' ', '('])
            .find(|word| !word.is_empty())?
            .parse()
            .ok()
    };
    Some(vec![
        ("records_per_s", number(" records/sec")?),
        ("mib_per_s", number(" MB/sec")?),
        ("latency_mean_ms", number(" ms avg")?),
        ("latency_max_ms", number(" ms max")?),
        ("latency_p50_ms", number(" ms 50th")?),
        ("latency_p95_ms", number(" ms 95th")?),
        ("latency_p99_ms", number(" ms 99th")?),
        ("latency_p999_ms", number(" ms 99.9th")?),
    ])
}

/// Parses the output: names in the first line, numbers in the second.
fn consumer_figures(output: &str) -> Option<Vec<(&'static str, f64)>> {
    let mut lines = output
        .lines()
        .skip_while(|line| !line.starts_with("start.time"));
    let names: Vec<&str> = lines.next()?.split(',').map(str::trim).collect();
    let row = lines.find(|line| line.split(',').count() == names.len())?;
    let values: Vec<&str> = row.split(',').map(str::trim).collect();
    let value = |wanted: &str| {
        let at = names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(wanted))?;
        values.get(at)?.parse::<f64>().ok()
    };
    Some(vec![
        ("records_per_s", value("fetch.nMsg.sec")?),
        ("mib_per_s", value("fetch.MB.sec")?),
        ("with_join_records_per_s", value("nMsg.sec")?),
        ("rebalance_time_ms", value("rebalance.time.ms")?),
        ("fetch_time_ms", value("fetch.time.ms")?),
    ])
}

/// Share of the records that are warm-up for the JVM.
const WARM_UP_SHARE: f64 = 0.15;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
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
        let found = producer_figures(output).unwrap();
        let values: Vec<f64> = found.iter().map(|(_, value)| *value).collect();
        assert_eq!(
            values,
            [68342.422876, 66.74, 3.92, 592.0, 0.0, 1.0, 116.0, 534.0]
        );
        assert!(producer_figures("284910 records sent, 56982.0 records/sec").is_none());
    }

    #[test]
    fn consumer_output_is_parsed() {
        let output = "start.time, end.time, data.consumed.in.MB, MB.sec, \
                      data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, \
                      fetch.MB.sec, fetch.nMsg.sec\n\
                      2026-11-21 20:00:00:000, 2026-11-21 20:00:04:000, 976.5625, 244.1406, \
                      1000000, 250000.0000, 3500, 500, 1953.1250, 2000000.0000\n";
        let found = consumer_figures(output).unwrap();
        assert_eq!(found[0], ("records_per_s", 2_000_000.0));
        assert_eq!(found[2], ("with_join_records_per_s", 250_000.0));
        assert_eq!(found[4], ("fetch_time_ms", 500.0));
        assert!(consumer_figures("nothing").is_none());
    }
}
