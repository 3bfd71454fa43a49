//! A consumer that reads a topic from its start up to a number of messages, as
//! `kafka-consumer-perf-test` does. It measures the read throughput of a broker.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::slice;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use weir_kafka::KafkaSettings;
use weir_kafka::lean::{
    LeanCommand, LeanConfig, LeanError, LeanGroups, LeanRecord, LeanReport, LeanSink,
};

use super::lean_consumers::run_lean;
use crate::clock::{Clock, nanos};
use crate::delivery::count_error;
use crate::error::Result;
use crate::topic;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{ScanSummary, Summary, WorkerRole};

/// Options of a scan.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// Cluster to read from.
    pub kafka: KafkaSettings,
    /// Topic to read.
    pub topic: String,
    /// Number of messages after which the consumer ends.
    pub messages: u64,
    /// Maximum bytes per fetch request and partition; a larger batch is returned whole.
    pub fetch_size_bytes: u64,
    /// Consumer group to join.
    pub group: String,
    /// Maximum time without a message, after which the consumer ends with fewer.
    pub timeout: Duration,
}

impl ScanOptions {
    fn config(&self) -> LeanConfig {
        LeanConfig {
            kafka: self.kafka.clone(),
            topic: self.topic.clone(),
            client_id: "weir-load-scan".to_owned(),
            fetch_max_bytes: i32::try_from(self.fetch_size_bytes).unwrap_or(i32::MAX),
            from_oldest: true,
            groups: Some(LeanGroups {
                prefix: self.group.clone(),
                ..LeanGroups::new(&self.group)
            }),
            ..LeanConfig::default()
        }
    }
}

/// Waits for the start command and reads the topic. Returns the final summary.
///
/// # Errors
/// [`LoadError`](crate::error::LoadError) if the consumer did not start; `link` gets no event about
/// it.
pub fn run(options: &ScanOptions, link: &CoordinatorChannel) -> Result<ScanSummary> {
    link.events.hello(WorkerRole::Consume);
    topic::ensure(&options.kafka, slice::from_ref(&options.topic), None)?;
    link.events.ready(0, None);
    let mut summary = ScanSummary::default();
    if link.wait_for_start().is_some() {
        let commands = watch::Sender::new(LeanCommand::Read);
        let sink = ScanSink::new(options.messages, commands.clone());
        let sink = Rc::new(RefCell::new(sink));
        let poll = || sink.borrow_mut().poll(options.timeout, link);
        let run = (options.config(), Rc::clone(&sink));
        let report = run_lean(vec![run], &commands, poll)?;
        summary = sink.borrow().summary(&report);
    }
    link.events.finish(Summary::Scan(summary.clone()));
    Ok(summary)
}

struct ScanSink {
    clock: Clock,
    started: Instant,
    ready: Option<Instant>,
    last: Instant,
    messages: u64,
    messages_max: u64,
    bytes: u64,
    wire_bytes: u64,
    errors: BTreeMap<String, u64>,
    commands: watch::Sender<LeanCommand>,
    next_report: Instant,
}

impl ScanSink {
    fn new(messages_max: u64, commands: watch::Sender<LeanCommand>) -> Self {
        let clock = Clock::start();
        let started = Instant::now();
        Self {
            clock,
            started,
            ready: None,
            last: started,
            messages: 0,
            messages_max,
            bytes: 0,
            wire_bytes: 0,
            errors: BTreeMap::new(),
            commands,
            next_report: started + REPORT_INTERVAL,
        }
    }

    fn poll(&mut self, timeout: Duration, link: &CoordinatorChannel) -> LeanCommand {
        let now = Instant::now();
        if now >= self.next_report {
            self.next_report = now + REPORT_INTERVAL;
            let received = ("bytes_received", self.wire_bytes);
            let counters = [("messages", self.messages), ("bytes", self.bytes), received];
            let now_unix_ns = self.clock.unix_ns(now);
            link.events.progress(now_unix_ns, &counters, None, false);
        }
        match link.take_commands(drop) || now - self.last > timeout {
            true => LeanCommand::Stop,
            false => LeanCommand::Read,
        }
    }

    fn summary(&self, report: &LeanReport) -> ScanSummary {
        let ready = self.ready.unwrap_or(self.last);
        ScanSummary {
            started_unix_ns: self.clock.unix_ns(self.started),
            rebalance_ns: nanos(ready - self.started),
            elapsed_ns: nanos(self.last - self.started),
            messages: self.messages,
            bytes: self.bytes,
            wire_bytes_received: self.wire_bytes,
            fetches: report.fetches,
            errors: self.errors.clone(),
        }
    }
}

impl LeanSink for ScanSink {
    fn on_ready(&mut self, _consumer: usize) {
        self.ready = Some(Instant::now());
    }

    /// Counts a record. Further records of the last fetch do not count.
    fn on_record(&mut self, _consumer: usize, record: &LeanRecord<'_>) {
        if self.messages >= self.messages_max {
            return;
        }
        self.messages += 1;
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len) as u64;
        self.bytes += length(record.key) + length(record.value);
        self.last = Instant::now();
        if self.messages == self.messages_max {
            self.commands.send_replace(LeanCommand::Stop);
        }
    }

    fn on_error(&mut self, _consumer: usize, error: &LeanError) {
        count_error(&mut self.errors, &error.to_string());
    }

    fn on_bytes(&mut self, _consumer: usize, n: usize) {
        self.wire_bytes += n as u64;
    }
}

const REPORT_INTERVAL: Duration = Duration::from_secs(1);
