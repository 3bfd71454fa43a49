//! Runs Apache Kafka's own tools on the cells of a sweep.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_lab::{KAFKA_VERSION, KafkaTools};
use weir_stats::perf::{SweepFile, parse_consumer, parse_producer};
use weir_stats::run::Cell;

use super::super::cell::CellContext;
use super::super::child::ProcessRole;
use super::super::observer::Observer;
use super::super::usage::CellUsage;
use super::topic::{delete_topic, new_topic};
use super::{figures, files};

/// Installed tools, or the reason why there are none.
pub(super) type SweepTools = Result<KafkaTools, String>;

pub(super) fn find(context: &CellContext<'_>, observer: &mut dyn Observer) -> SweepTools {
    let found = KafkaTools::find(KAFKA_VERSION, &mut |text| observer.note(text), context.stop);
    found.map_err(|error| error.to_string())
}

/// Runs the producer tool with as many records as Weir's cell writes.
pub(super) fn produce(
    context: &CellContext<'_>,
    tools: &SweepTools,
    (size, target): (u64, u64),
    cell: &mut Cell,
) -> Result<(), String> {
    let tools = tools.as_ref().map_err(Clone::clone)?;
    let plan = context.plan;
    let topic = match &plan.topic {
        Some(topic) => topic.clone(),
        None => new_topic(context, &cell.id())?,
    };
    let records = (target as f64 * (plan.warm_up + plan.hold).as_secs_f64()).ceil() as u64;
    let bootstrap = format!("bootstrap.servers={}", context.bootstrap);
    let compression = format!("compression.type={}", plan.workload.compression);
    let mut command = tools.command(PRODUCER);
    command
        .args(["--topic", &topic, "--num-records", &records.to_string()])
        .args([
            "--record-size",
            &size.to_string(),
            "--throughput",
            &target.to_string(),
        ])
        // Same properties as Weir's producer; all others are the tool's defaults.
        .args([
            "--producer-props",
            &bootstrap,
            "acks=all",
            "linger.ms=1",
            &compression,
        ]);
    let timeout = plan.warm_up + plan.hold + TOOL_TIMEOUT;
    let file = SweepFile::Producer {
        record_size_bytes: size,
        target_per_s: Some(target),
    };
    let text = run(
        context,
        command,
        (cell, &file, ProcessRole::Produce),
        timeout,
    );
    if plan.topic.is_none() {
        delete_topic(context.admin, &topic);
    }
    let line = parse_producer(&text?)
        .total
        .ok_or("the tool printed no summary line")?;
    figures::of_producer_line(cell, &line);
    figures::evaluate_producer(cell, plan, (0, 0));
    Ok(())
}

/// Runs the consumer tool on the same records.
pub(super) fn consume(
    context: &CellContext<'_>,
    tools: &SweepTools,
    (topic, fetch_size): (&str, u64),
    cell: &mut Cell,
) -> Result<(), String> {
    let tools = tools.as_ref().map_err(Clone::clone)?;
    let records = figures::consumer_records(context.plan).to_string();
    let mut command = tools.command(CONSUMER);
    command
        .args(["--bootstrap-server", &context.bootstrap, "--topic", topic])
        .args([
            "--messages",
            &records,
            "--fetch-size",
            &fetch_size.to_string(),
        ])
        .args([
            "--group",
            &format!("weir-{}-{}", cell.id(), context.clock.now_unix_ns()),
        ]);
    let file = SweepFile::Consumer {
        fetch_size_bytes: fetch_size,
    };
    let text = run(
        context,
        command,
        (cell, &file, ProcessRole::Consume),
        TOOL_TIMEOUT * 4,
    )?;
    let rows = parse_consumer(&text);
    let row = rows.first().ok_or("the tool printed no row")?;
    figures::of_consumer(cell, row);
    Ok(())
}

/// Runs a tool and returns its output, which is also appended to the run's `kafka-tools` directory.
fn run(
    context: &CellContext<'_>,
    mut command: Command,
    (cell, file, role): (&mut Cell, &SweepFile, ProcessRole),
    timeout: Duration,
) -> Result<String, String> {
    let dir = context.dir.join(cell.id());
    let output = dir.join("output.txt");
    let io = |error: std::io::Error| format!("{}: {error}", output.display());
    std::fs::create_dir_all(&dir).map_err(io)?;
    let out = File::create(&output).map_err(io)?;
    let log = File::create(dir.join("tool.log")).map_err(io)?;
    command.stdin(Stdio::null()).stdout(out).stderr(log);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut usage = CellUsage::default();
    usage.watch(ProcessRole::Broker, &context.broker_pids);
    usage.watch(role, &[child.id()]);
    let from_unix_ns = context.clock.now_unix_ns();
    usage.read(from_unix_ns);
    let deadline = Instant::now() + timeout;
    let mut last_unix_ns = from_unix_ns;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) => {}
            Err(error) => break Err(error.to_string()),
        }
        if Instant::now() > deadline || context.stop.load(Ordering::Relaxed) {
            break Err("the tool did not finish in time".to_owned());
        }
        last_unix_ns = context.clock.now_unix_ns();
        usage.read(last_unix_ns);
        std::thread::sleep(POLL_INTERVAL);
    };
    if status.is_err() {
        // Both calls fail only if the process has exited.
        let _ = child.kill();
        let _ = child.wait();
    }
    cell.roles = usage.roles((from_unix_ns, last_unix_ns), 1, 0);
    let text = std::fs::read_to_string(&output).map_err(io)?;
    match status? {
        status if status.success() => {}
        status => {
            return Err(format!(
                "the tool failed: {status}; see its log in {}",
                dir.display()
            ));
        }
    }
    files::append(&context.dir.join("kafka-tools").join(file.name()), &text)?;
    Ok(text)
}

const PRODUCER: &str = "org.apache.kafka.tools.ProducerPerformance";
const CONSUMER: &str = "org.apache.kafka.tools.ConsumerPerformance";
const TOOL_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
