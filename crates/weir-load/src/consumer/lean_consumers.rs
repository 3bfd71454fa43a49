//! Event loop of the lean consumers, and the state of all consumers of a process: a delivery check
//! and a small histogram each, and totals.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval_at};
use weir_kafka::lean::{
    self, LeanCommand, LeanConfig, LeanError, LeanRecord, LeanReport, LeanSink,
};
use weir_stats::CompactHistogram;

use super::backlog::Backlog;
use super::options::{ConsumerClient, ConsumerOptions};
use super::origin::{OriginReader, key_name};
use crate::clock::{Clock, nanos};
use crate::delivery::{DeliveryChecker, DeliverySummary, Expected, Ledger, count_error};
use crate::error::{LoadError, Result};
use crate::keys::KeyTable;
use crate::local_time::LocalTime;
use crate::meter::DeliveryRecorder;
use crate::published_report::PublishedReporter;
use crate::value_schema::DocumentFault;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{Schedule, WorkerCommand};

/// Runs lean consumers of each configuration in this thread, and does every 20 ms what `poll` says.
/// They end on their own only with an error at the start, or after a command to stop.
pub(super) fn run_lean<S: LeanSink + 'static>(
    runs: Vec<(LeanConfig, S)>,
    commands: &watch::Sender<LeanCommand>,
    mut poll: impl FnMut() -> LeanCommand,
) -> Result<LeanReport> {
    let failed = |reason| LoadError::System("starting the event loop of the consumers", reason);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let runs = runs.into_iter();
        let runs = runs.map(|(config, sink)| lean::run(config, sink, commands.subscribe()));
        let consumers = run_all(runs.collect());
        tokio::pin!(consumers);
        let mut ticks = interval_at(tokio::time::Instant::now() + POLL_INTERVAL, POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_stopping = false;
        loop {
            tokio::select! {
                outcome = &mut consumers => return outcome,
                _ = ticks.tick(), if !is_stopping => {
                    let command = poll();
                    is_stopping = command == LeanCommand::Stop;
                    commands.send_if_modified(|current| {
                        // Consumers that have all they want are stopped already.
                        let is_new = *current != command && *current != LeanCommand::Stop;
                        if is_new {
                            *current = command;
                        }
                        is_new
                    });
                }
            }
        }
    })
}

/// Waits until all have ended, or one with an error, and adds up their totals.
async fn run_all<F>(runs: Vec<F>) -> Result<LeanReport>
where
    F: Future<Output = Result<LeanReport, LeanError>>,
{
    let mut running: Vec<_> = runs.into_iter().map(Box::pin).collect();
    let mut total = LeanReport::default();
    std::future::poll_fn(|context| {
        let mut at = 0;
        while at < running.len() {
            match running[at].as_mut().poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(report)) => {
                    total.add(&report);
                    drop(running.swap_remove(at));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            }
        }
        match running.is_empty() {
            true => Poll::Ready(Ok(total)),
            false => Poll::Pending,
        }
    })
    .await
}

/// Sink of the lean consumers, and handler of the coordinator's commands.
pub(super) struct LeanConsumers {
    /// One per standalone consumer or per group. All records of its topic are due to each of them.
    clients: Vec<ConsumerState>,
    consumers: usize,
    per_client: usize,
    keys: KeyTable,
    clock: Clock,
    origins: OriginReader,
    meter: DeliveryRecorder,
    /// Deliveries of records due in the measured window, by their stamps.
    in_window: u64,
    schedule: Option<Schedule>,
    ledger: Option<Ledger>,
    pub(super) ready: usize,
    is_ready_reported: bool,
    pub(super) bytes_received: u64,
    /// Records whose due time was parsed from the value.
    from_text: u64,
    /// Time records without a due time by their timestamp, and the number of such records.
    record_timestamps: bool,
    from_timestamp: u64,
    /// `true` if the broker set the timestamp of the last record; `None` if unknown.
    log_append_time: Option<bool>,
    pub(super) errors: BTreeMap<String, u64>,
    next_report: Instant,
    next_settle: Instant,
    busy: CpuUtilization,
    published: Option<PublishedReporter>,
    backlog: Option<Backlog>,
}

#[derive(Debug)]
struct ConsumerState {
    expected: Expected,
    checker: DeliveryChecker,
    latency: CompactHistogram,
}

impl LeanConsumers {
    pub(super) fn new(options: &ConsumerOptions) -> Result<Self> {
        let clock = Clock::start();
        let now = Instant::now();
        let per_client = options.members().max(1);
        let clients = 0..options.clients.div_ceil(per_client);
        let new_client = |receiver| ConsumerState {
            expected: match options.topics {
                0 | 1 => Expected::All,
                of => Expected::Topic {
                    number: options.topic_of(receiver),
                    of,
                },
            },
            checker: DeliveryChecker::default(),
            latency: CompactHistogram::default(),
        };
        let (source, local) = (&options.latency_from, LocalTime::system());
        let origins = OriginReader::new(source, options.marked_only, &options.values, local)?;
        Ok(Self {
            clients: clients.map(new_client).collect(),
            consumers: options.clients,
            per_client,
            keys: KeyTable::default(),
            clock,
            origins,
            in_window: 0,
            meter: DeliveryRecorder::new(clock.now_unix_ns()).with_share(options.share),
            schedule: None,
            ledger: None,
            ready: 0,
            is_ready_reported: false,
            bytes_received: 0,
            from_text: 0,
            record_timestamps: options.record_timestamps,
            from_timestamp: 0,
            log_append_time: None,
            errors: BTreeMap::new(),
            next_report: now + REPORT_INTERVAL,
            next_settle: now,
            busy: CpuUtilization::start(options.client),
            published: options.published_report.map(PublishedReporter::start),
            backlog: options.backlog.map(Backlog::new),
        })
    }

    /// Handles commands, reports and the end of the run. Returns what the consumers have to do.
    /// Called 50 times per second.
    pub(super) fn poll(&mut self, link: &CoordinatorChannel) -> LeanCommand {
        if !self.is_ready_reported && self.ready >= self.consumers {
            self.is_ready_reported = true;
            link.events.ready(self.ready, None);
        }
        let mut is_stopping = link.take_commands(|command| match command {
            WorkerCommand::Ledger { entries } => {
                self.ledger = Some(Ledger::new(&entries, &mut self.keys));
            }
            WorkerCommand::Start(schedule) => self.schedule = Some(schedule),
            WorkerCommand::Stop => {}
        });
        let now = Instant::now();
        let now_unix_ns = self.clock.unix_ns(now);
        is_stopping |= self
            .schedule
            .is_some_and(|it| now_unix_ns >= it.stop_unix_ns);
        if self.ledger.is_some() && now >= self.next_settle {
            self.next_settle = now + SETTLE_INTERVAL;
            is_stopping |= self.is_settled();
        }
        if now >= self.next_report || is_stopping {
            self.next_report = now + REPORT_INTERVAL;
            let counters = [
                ("clients", self.consumers as u64),
                ("connected", self.ready as u64),
                ("updates", self.meter.updates),
                ("in_window", self.in_window),
                ("early", self.meter.early),
                ("errors", self.errors.values().sum()),
                ("bytes_received", self.bytes_received),
                ("busy_permille", self.busy.permille()),
            ];
            self.meter.report(&link.events, now_unix_ns, &counters);
        }
        if let Some(published) = &mut self.published {
            published.poll(&link.events, now, is_stopping);
        }
        let pause = self.backlog.as_ref().zip(self.schedule.as_ref());
        let is_pause = pause.is_some_and(|(it, schedule)| it.is_pause(schedule, now_unix_ns));
        match (is_stopping, is_pause) {
            (true, _) => LeanCommand::Stop,
            (false, true) => LeanCommand::Pause,
            (false, false) => LeanCommand::Read,
        }
    }

    /// Returns `true` if every record of the ledger has arrived at every consumer.
    fn is_settled(&self) -> bool {
        let Some(ledger) = &self.ledger else {
            return false;
        };
        // Compares the sum first, which is cheaper than checking every consumer.
        let mut of_topics: BTreeMap<_, u64> = BTreeMap::new();
        let due = |client: &ConsumerState| {
            let expected = client.expected;
            *of_topics
                .entry(expected)
                .or_insert_with(|| ledger.records(expected))
        };
        let expected: u64 = self.clients.iter().map(due).sum();
        let settled = |client: &ConsumerState| {
            let counts = client.checker.settle(ledger, client.expected);
            counts.lost == 0
        };
        self.in_window >= expected && self.clients.iter().all(settled)
    }

    pub(super) fn summary(&self, report: &LeanReport) -> DeliverySummary {
        let mut summary = DeliverySummary {
            bytes_received: self.bytes_received,
            disconnects: report.disconnects,
            group_assignments: report.assignments,
            group_commits: report.commits,
            timed_by_timestamp: self.from_timestamp,
            log_append_time: self.log_append_time.filter(|_| self.from_timestamp > 0),
            latency_resolution_ns: match self.from_text + self.from_timestamp {
                0 => 1,
                _ => TEXT_RESOLUTION_NS,
            },
            errors: self.errors.clone(),
            ..DeliverySummary::default()
        };
        let backlog = self.backlog.as_ref().zip(self.schedule.as_ref());
        summary.backlog = backlog.map(|(backlog, schedule)| backlog.summary(schedule));
        let clients = self.clients.iter();
        let clients = clients.map(|it| (&it.checker, &it.latency, it.expected));
        summary.settle(clients, self.ledger.as_ref(), self.meter.early);
        summary
    }

    /// Counts one record and checks it; `stored_ms` is its timestamp, -1 without one.
    pub(super) fn record<'a>(
        &mut self,
        consumer: usize,
        (key, value): (Option<&[u8]>, Option<&[u8]>),
        headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
        (stored_ms, at_unix_ns): (i64, u64),
    ) {
        let mut origin = self.origins.read(headers, value);
        // The timestamp does not hide that values cannot be read.
        let has_time = origin.due_unix_ns.is_some() || origin.fault.is_some();
        if !has_time && self.record_timestamps {
            let stored_ms = u64::try_from(stored_ms).ok();
            origin.due_unix_ns = stored_ms.map(|ms| ms.saturating_mul(1_000_000));
            self.from_timestamp += u64::from(stored_ms.is_some());
        }
        self.from_text += u64::from(origin.from_text);
        let client = &mut self.clients[consumer / self.per_client];
        let Some(due_unix_ns) = origin.due_unix_ns else {
            self.meter.updates += 1;
            client.checker.on_unstamped(false);
            let fault = origin.fault.map(DocumentFault::text);
            let fault = fault.unwrap_or("record without stamp or timestamp");
            return count_error(&mut self.errors, fault);
        };
        let schedule = self.schedule.as_ref();
        let stamp = origin.stamp.as_ref();
        if origin.timed {
            let response_ns = self.meter.record(due_unix_ns, stamp, at_unix_ns, schedule);
            if let Some(response_ns) = response_ns {
                client.latency.record_ns(response_ns);
                // A record may have no timestamp.
                if let Ok(stored_ms) = u64::try_from(stored_ms) {
                    self.meter.record_stored(stored_ms, at_unix_ns);
                }
            }
            if let Some(published) = &mut self.published {
                published.record(due_unix_ns, at_unix_ns);
            }
        } else {
            self.meter.record_background(due_unix_ns, schedule);
        }
        // The ledger uses the due times of the stamps; a text has only milliseconds.
        let checked_unix_ns = stamp.map_or(due_unix_ns, |stamp| stamp.due_unix_ns);
        let in_window = schedule.is_some_and(|schedule| schedule.in_window(checked_unix_ns));
        if let Some((backlog, schedule)) = self.backlog.as_mut().zip(schedule) {
            backlog.record(schedule, checked_unix_ns, at_unix_ns);
        }
        self.in_window += u64::from(in_window);
        let key = key_name(key.unwrap_or_default());
        match stamp.zip(self.keys.id(key)) {
            Some((stamp, key)) => {
                client.checker.on_delivery(key, stamp, in_window);
            }
            None => client.checker.on_unstamped(in_window),
        }
    }
}

impl LeanSink for LeanConsumers {
    fn on_ready(&mut self, _consumer: usize) {
        self.ready += 1;
    }

    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>) {
        let at_unix_ns = self.clock.now_unix_ns();
        let headers = record.headers().flatten();
        self.log_append_time = Some(record.log_append_time);
        let times = (record.timestamp_ms, at_unix_ns);
        self.record(consumer, (record.key, record.value), headers, times);
    }

    fn on_error(&mut self, _consumer: usize, error: &LeanError) {
        count_error(&mut self.errors, &error.to_string());
    }

    fn on_bytes(&mut self, _consumer: usize, n: usize) {
        self.bytes_received += n as u64;
    }
}

/// CPU utilization: of the one thread, or with librdkafka of this process relative to all cores.
#[derive(Debug)]
struct CpuUtilization {
    of: ConsumerClient,
    at: Instant,
    cpu: Duration,
}

impl CpuUtilization {
    fn start(of: ConsumerClient) -> Self {
        Self {
            of,
            at: Instant::now(),
            cpu: match of {
                ConsumerClient::Lean => cpu_time(ClockId::ThreadCPUTime),
                ConsumerClient::Librdkafka => cpu_time(ClockId::ProcessCPUTime) / cores(),
            },
        }
    }

    /// Returns the CPU time in thousandths of the time since the last call.
    fn permille(&mut self) -> u64 {
        let now = Self::start(self.of);
        let elapsed_ns = nanos(now.at - self.at).max(1);
        let cpu_ns = nanos(now.cpu.saturating_sub(self.cpu));
        *self = now;
        (cpu_ns.saturating_mul(1000) / elapsed_ns).min(1000)
    }
}

fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(1)
}

fn cpu_time(of: ClockId) -> Duration {
    let time = clock_gettime(of);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

/// Interval at which consumers handle commands and report.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
const SETTLE_INTERVAL: Duration = Duration::from_millis(100);
const TEXT_RESOLUTION_NS: u64 = 1_000_000;
