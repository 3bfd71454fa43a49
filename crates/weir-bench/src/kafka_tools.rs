//! Runs Apache Kafka's performance tools. Their output is stored unchanged.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_lab::{KAFKA_VERSION, KafkaTools, LabError};
use weir_stats::perf::{ConsumerPerf, ProducerPerf, parse_consumer, parse_producer};

use super::child::{OwnedChild, ProcessRole};
use super::usage::CellUsage;
use crate::experiment::turns::{CellFailure, CellResult};
use crate::experiment::{Connection, RunContext};
use crate::{BenchError, Observer};

pub(super) fn find(
    context: RunContext<'_>,
    observer: &mut dyn Observer,
) -> Result<KafkaTools, LabError> {
    let stop = context.run_dir.stop;
    KafkaTools::find(KAFKA_VERSION, &mut |text| observer.note(text), stop)
}

/// Returns the command of `kafka-producer-perf-test` with the arguments common to all uses.
pub(super) fn producer(
    tools: &KafkaTools,
    topic: &str,
    (records, bytes): (u64, u64),
    rate_per_s: Option<u64>,
) -> Command {
    let mut command = tools.command("org.apache.kafka.tools.ProducerPerformance");
    let rate = rate_per_s.map_or_else(|| "-1".to_owned(), |rate| rate.to_string());
    command
        .args(["--topic", topic, "--throughput", &rate])
        .args(["--num-records", &records.to_string()])
        .args(["--record-size", &bytes.to_string()]);
    command
}

/// Returns the command of `kafka-consumer-perf-test` with the arguments common to all uses.
pub(super) fn consumer(
    tools: &KafkaTools,
    (connection, topic): (Connection<'_>, &str),
    records: u64,
    group: &str,
) -> Command {
    let mut command = tools.command("org.apache.kafka.tools.ConsumerPerformance");
    command
        .args(["--bootstrap-server", connection.bootstrap, "--topic", topic])
        .args(["--messages", &records.to_string(), "--group", group]);
    add_client(&mut command, connection);
    command
}

/// Adds the file with the client properties, if there are any.
pub(super) fn add_client(command: &mut Command, connection: Connection<'_>) {
    if let Some(file) = connection.file {
        command.arg("--command-config").arg(file);
    }
}

/// Runs a tool and samples its usage, and returns its output, which is stored in `path`.
pub(super) fn run(
    context: RunContext<'_>,
    mut command: Command,
    path: &Path,
    (usage, role): (&mut CellUsage, ProcessRole),
    timeout: Duration,
) -> CellResult<String> {
    let create = |path: &Path| File::create(path).map_err(|error| BenchError::file(path, error));
    let (output, log) = (create(path)?, create(&path.with_extension("log"))?);
    command.stdin(Stdio::null()).stdout(output).stderr(log);
    let failed = |source| BenchError::Spawn("a tool of Apache Kafka", source);
    let mut tool = OwnedChild(command.spawn().map_err(failed)?);
    usage.watch(role, &[tool.0.id()]);
    let deadline = Instant::now() + timeout;
    let status = loop {
        usage.read(context.run_dir.clock.now_unix_ns());
        if let Some(status) = tool.0.try_wait().ok().flatten() {
            break status;
        }
        if context.run_dir.is_stopped() {
            return Err(CellFailure::Interrupted);
        }
        if Instant::now() >= deadline {
            return Err(CellFailure::because(format!(
                "the tool did not finish within {} s; lower the rate or the number of records, or \
                 see its output {}",
                timeout.as_secs(),
                path.display()
            )));
        }
        thread::sleep(SAMPLE_INTERVAL);
    };
    let text = fs::read_to_string(path).map_err(|error| BenchError::read(path, error))?;
    match status.success() {
        true => Ok(text),
        false => Err(CellFailure::because(format!(
            "the tool failed: {status}; see its log {}",
            path.with_extension("log").display()
        ))),
    }
}

/// Returns the last summary of the producer tool; with a warm-up, it covers the steady part only.
pub(super) fn summary(output: &str) -> CellResult<ProducerPerf> {
    let parsed = parse_producer(output);
    parsed.total.ok_or_else(|| no_result(output))
}

/// Returns the result of the consumer tool, which ends without an error if it has not received all
/// records in time.
pub(super) fn row(output: &str, records: u64) -> CellResult<ConsumerPerf> {
    let first = parse_consumer(output).into_iter().next();
    let row = first.ok_or_else(|| no_result(output))?;
    match row.messages {
        received if received < records => Err(CellFailure::because(format!(
            "the tool ended after {received} of {records} records: the broker has deleted the \
             others (see its log.retention settings) or sent them too late for the tool's --timeout"
        ))),
        _ => Ok(row),
    }
}

fn no_result(output: &str) -> CellFailure {
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    CellFailure::because(format!(
        "the tool printed no result; last output: {}",
        last.unwrap_or("(empty)")
    ))
}

const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);
