//! Runs Apache Kafka's own tools on the cells of a sweep.

use std::process::Command;
use std::time::Duration;

use weir_lab::{KafkaTools, LabError};
use weir_stats::perf::SweepFile;
use weir_stats::run::Cell;

use super::context::SweepContext;
use super::{figures, files};
use crate::child::ProcessRole;
use crate::experiment::turns::{CellFailure, CellResult};
use crate::kafka_tools;
use crate::usage::CellUsage;

/// Installed tools, or the reason why there are none.
pub(super) type SweepTools = Result<KafkaTools, LabError>;

/// Runs the producer tool with as many records as Weir's cell writes.
pub(super) fn produce(
    context: SweepContext<'_>,
    tools: &SweepTools,
    (size, target): (u64, u64),
    cell: &mut Cell,
) -> CellResult {
    let (tools, plan) = (installed(tools)?, context.plan);
    let records = (target as f64 * (plan.warm_up + plan.hold).as_secs_f64()).ceil() as u64;
    let file = SweepFile::Producer {
        record_size_bytes: size,
        target_per_s: Some(target),
    };
    let connection = context.run.broker.connection();
    context.with_topic(&cell.id(), |topic| {
        let mut command = kafka_tools::producer(tools, topic, (records, size), Some(target));
        // Same properties as Weir's producer; all others are the tool's defaults.
        command
            .args(["--producer-props", "acks=all", "linger.ms=1"])
            .arg(format!("bootstrap.servers={}", connection.bootstrap))
            .arg(format!("compression.type={}", plan.workload.compression));
        kafka_tools::add_client(&mut command, connection);
        let timeout = (plan.warm_up + plan.hold) * SLOWDOWN_MAX + TOOL_TIMEOUT;
        let role = ProcessRole::Produce;
        let text = run(context, command, (cell, &file), role, timeout)?;
        figures::of_producer_line(cell, &kafka_tools::summary(&text)?);
        figures::evaluate_producer(cell, plan, (0, 0));
        Ok(())
    })
}

/// Runs the consumer tool on the same records.
pub(super) fn consume(
    context: SweepContext<'_>,
    tools: &SweepTools,
    (topic, fetch_size): (&str, u64),
    cell: &mut Cell,
) -> CellResult {
    let records = context.plan.sweep.consumer_records;
    let now_unix_ns = context.run.run_dir.clock.now_unix_ns();
    let group = format!("weir-{}-{now_unix_ns}", cell.id());
    let read = (context.run.broker.connection(), topic);
    let mut command = kafka_tools::consumer(installed(tools)?, read, records, &group);
    command.args(["--fetch-size", &fetch_size.to_string()]);
    let file = SweepFile::Consumer {
        fetch_size_bytes: fetch_size,
    };
    let (role, timeout) = (ProcessRole::Consume, TOOL_TIMEOUT * 4);
    let text = run(context, command, (cell, &file), role, timeout)?;
    figures::of_consumer(cell, &kafka_tools::row(&text, records)?);
    Ok(())
}

fn installed(tools: &SweepTools) -> CellResult<&KafkaTools> {
    tools
        .as_ref()
        .map_err(|error| CellFailure::because(error.to_string()))
}

/// Runs a tool and returns its output, which is also appended to the run's `kafka-tools` directory.
fn run(
    context: SweepContext<'_>,
    command: Command,
    (cell, file): (&mut Cell, &SweepFile),
    role: ProcessRole,
    timeout: Duration,
) -> CellResult<String> {
    let run_dir = context.run.run_dir;
    let output = run_dir.subdir(&cell.id())?.join("output.txt");
    let mut usage = CellUsage::default();
    usage.watch(ProcessRole::Broker, &context.run.broker.pids);
    let from_unix_ns = run_dir.clock.now_unix_ns();
    let ran = kafka_tools::run(context.run, command, &output, (&mut usage, role), timeout);
    cell.roles = usage.roles((from_unix_ns, run_dir.clock.now_unix_ns()), 1, 0);
    let text = ran?;
    let copy = run_dir.subdir("kafka-tools")?.join(file.name());
    files::append(&copy, &text)?;
    Ok(text)
}

/// Time for the start and end of a tool.
const TOOL_TIMEOUT: Duration = Duration::from_secs(60);
/// How many times as long as planned the producer tool may take. It writes all its records even if
/// it cannot reach the target: on 2 cores it needed 11 times as long for 50,000 records/s of 10,000
/// bytes.
const SLOWDOWN_MAX: u32 = 20;
