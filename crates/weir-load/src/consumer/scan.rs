//! A consumer that reads a topic from its start up to a number of messages, as
//! `kafka-consumer-perf-test` does. It measures the read throughput of a broker.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{Instant as TokioInstant, MissedTickBehavior, interval_at};
use weir_kafka::lean::{self, LeanConfig, LeanError, LeanGroups, LeanRecord, LeanReport, LeanSink};

use super::runtime::{POLL_INTERVAL, event_loop};
use crate::clock::{Clock, nanos};
use crate::error::LoadError;
use crate::topic;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{
    ScanSummary, Summary, WorkerCommand, WorkerEvent, WorkerProgress, WorkerRole,
};

/// Options of a scan.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// Comma-separated `host:port` list; plain TCP only.
    pub bootstrap_servers: String,
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
            bootstrap_servers: self.bootstrap_servers.clone(),
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
/// [`LoadError`] if the consumer did not start; `link` gets no event about it.
pub fn run(options: &ScanOptions, link: &CoordinatorChannel) -> Result<ScanSummary, LoadError> {
    link.events.hello(WorkerRole::Consume);
    topic::require(&options.bootstrap_servers, &options.topic)?;
    let runtime = event_loop()?;
    link.events.send(&WorkerEvent::Ready {
        connections: 0,
        port: None,
    });
    let summary = match is_started(link) {
        true => runtime.block_on(scan(options, link))?,
        false => ScanSummary::default(),
    };
    link.events.send(&WorkerEvent::Final {
        summary: Summary::Scan(summary.clone()),
    });
    Ok(summary)
}

/// Waits for the start command. Returns `false` if the run is stopped instead.
fn is_started(link: &CoordinatorChannel) -> bool {
    loop {
        match link.commands.recv() {
            Ok(WorkerCommand::Start(_)) => return true,
            Ok(WorkerCommand::Ledger { .. }) => {}
            Ok(WorkerCommand::Stop) | Err(_) => return false,
        }
    }
}

async fn scan(options: &ScanOptions, link: &CoordinatorChannel) -> Result<ScanSummary, LoadError> {
    let (done, stopped) = watch::channel(false);
    let reader = Rc::new(RefCell::new(ScanSink::new(options.messages, done)));
    let consumer = lean::run(options.config(), Rc::clone(&reader), stopped);
    tokio::pin!(consumer);
    let mut ticks = interval_at(TokioInstant::now() + POLL_INTERVAL, POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let report = loop {
        tokio::select! {
            // The consumer ends on its own after the last message, or with an error at the start.
            outcome = &mut consumer => break outcome?,
            _ = ticks.tick() => reader.borrow_mut().poll(options.timeout, link),
        }
    };
    let summary = reader.borrow().summary(&report);
    Ok(summary)
}

/// Counter of the received messages.
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
    done: watch::Sender<bool>,
    next_report: Instant,
}

impl ScanSink {
    fn new(messages_max: u64, done: watch::Sender<bool>) -> Self {
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
            done,
            next_report: started + REPORT_INTERVAL,
        }
    }

    /// Handles commands, the timeout and the progress report.
    fn poll(&mut self, timeout: Duration, link: &CoordinatorChannel) {
        let now = Instant::now();
        let is_stop_requested = loop {
            match link.commands.try_recv() {
                Ok(WorkerCommand::Stop) | Err(TryRecvError::Disconnected) => break true,
                Ok(WorkerCommand::Start(_) | WorkerCommand::Ledger { .. }) => {}
                Err(TryRecvError::Empty) => break false,
            }
        };
        if is_stop_requested || now - self.last > timeout {
            self.end();
        }
        if now >= self.next_report {
            self.next_report = now + REPORT_INTERVAL;
            let counters = [
                ("messages", self.messages),
                ("bytes", self.bytes),
                ("bytes_received", self.wire_bytes),
            ];
            link.events.send(&WorkerEvent::Progress(WorkerProgress {
                unix_ns: self.clock.unix_ns(now),
                counters: counters.map(|(name, n)| (name.to_owned(), n)).into(),
                ..WorkerProgress::default()
            }));
        }
    }

    fn end(&self) {
        // The receiver is closed only if the consumer has already ended.
        let _ = self.done.send(true);
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
            self.end();
        }
    }

    fn on_error(&mut self, _consumer: usize, error: &LeanError) {
        let text = error.to_string();
        if self.errors.len() < ERROR_TEXTS_MAX || self.errors.contains_key(&text) {
            *self.errors.entry(text).or_default() += 1;
        }
    }

    fn on_bytes(&mut self, _consumer: usize, n: usize) {
        self.wire_bytes += n as u64;
    }
}

const REPORT_INTERVAL: Duration = Duration::from_secs(1);
const ERROR_TEXTS_MAX: usize = 100;
