//! One librdkafka producer with a thread that serves delivery reports while there is work.
//!
//! Batches stop waiting for company for as long as librdkafka's own flush lasts, which the crate
//! calls without a wait; so that one is called here ([`weir_flush`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::ReportedDistribution;
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use weir_flush::flush;

use super::CommandOutcome;
use super::deadline::{Deadline, WaitAborted};
use super::error::CommandError;
use super::histogram::DriverHistogram;
use super::usage::{ClockMark, DriverClock};
use super::values::{PRIMER, PRIMER_VALUE, key};

/// A producer.
pub(super) struct DriverProducer {
    client: Arc<BaseProducer<Reports>>,
    gate: Arc<PollGate>,
    server: Option<JoinHandle<()>>,
}

/// What became of the records of a command.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reported {
    /// Of the last report.
    pub(super) last: ClockMark,
    pub(super) acked: u64,
    pub(super) failed: u64,
    pub(super) errors: Vec<String>,
    /// Report minus the instant given with each record, if that was asked for.
    pub(super) latency: ReportedDistribution,
}

impl DriverProducer {
    /// Makes the client.
    pub(super) fn start(settings: &ClientConfig, clock: DriverClock) -> CommandOutcome<Self> {
        let context = Reports::new(clock);
        let client = BaseProducer::from_config_and_context(settings, context);
        let client = Arc::new(client.map_err(CommandError::kafka("making a producer"))?);
        let gate = Arc::new(PollGate::default());
        let (served, open) = (Arc::clone(&client), Arc::clone(&gate));
        let server = thread::Builder::new().name("reports".to_owned());
        let server = server.spawn(move || {
            while open.pass() {
                // Serves every report as it comes. A slice ends in a spin of up to a millisecond
                // (the crate counts whole ones), so it is longer than most work.
                served.poll(SLICE);
            }
        })?;
        Ok(Self {
            client,
            gate,
            server: Some(server),
        })
    }

    /// Asks for the topic, so that no record has to.
    pub(super) fn know(&self, topic: &str, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        let left = timeout
            .left()
            .map_err(|over| late("asked for", 0, 1, over, ""))?;
        let client = self.client.client();
        let metadata = client.fetch_metadata(Some(topic), left);
        let metadata = metadata.map_err(CommandError::kafka("asking for the topic"))?;
        let refused = |reason: String| CommandError::Topic {
            topic: topic.to_owned(),
            reason,
        };
        let found = metadata.topics().first();
        let found = found.ok_or_else(|| refused("the answer names none".to_owned()))?;
        match found.error() {
            Some(code) => Err(refused(RDKafkaErrorCode::from(code).to_string())),
            None => Ok(()),
        }
    }

    /// Delivers one record that consumers step over.
    pub(super) fn send_primer(&self, topic: &str, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        self.begin(1, false);
        self.send(topic, &key(PRIMER), &PRIMER_VALUE, 0, timeout)?;
        let reported = self.finish(timeout)?;
        match reported.errors.first() {
            Some(reason) => Err(CommandError::Topic {
                topic: topic.to_owned(),
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Begins a command of so many records. Reports are served until [`finish`](Self::finish).
    pub(super) fn begin(&self, expected: u64, timed: bool) {
        self.reports().begin(expected, timed);
        self.gate.open(self.server.as_ref());
    }

    /// Hands over a record. A full queue is waited for; a record that is refused has failed.
    pub(super) fn send(
        &self,
        topic: &str,
        key: &[u8],
        value: &[u8],
        due_ns: u64,
        timeout: &Deadline<'_>,
    ) -> CommandOutcome<()> {
        // Invariant: a pointer has 64 bits here, as everywhere this program runs.
        let record = BaseRecord::with_opaque_to(topic, due_ns as usize);
        self.hand_over(record.partition(0).key(key).payload(value), timeout)
    }

    /// The same for a record that is made.
    pub(super) fn hand_over(
        &self,
        mut record: BaseRecord<'_, [u8], [u8], usize>,
        timeout: &Deadline<'_>,
    ) -> CommandOutcome<()> {
        loop {
            let (error, refused) = match self.client.send(record) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                self.reports().report(Err(&error), 0);
                return Ok(());
            }
            timeout.left().map_err(|over| self.late(over))?;
            thread::sleep(QUEUE_PAUSE);
            record = refused;
        }
    }

    /// Sends what waits for company, and waits for all reports.
    pub(super) fn finish(&self, timeout: &Deadline<'_>) -> CommandOutcome<Reported> {
        let reports = self.reports();
        while !reports.are_complete() {
            let left = timeout.left().map_err(|over| self.late(over))?;
            let flushed = flush(self.client.client(), left.min(SLICE));
            if flushed.map_err(CommandError::kafka("flushing"))? {
                // The library knows of no more records: what is missing is being reported.
                reports.wait(left.min(SLICE));
            }
        }
        self.gate.close();
        Ok(reports.reported())
    }

    fn late(&self, over: WaitAborted) -> CommandError {
        let reports = self.reports();
        let (done, wanted) = (reports.done(), reports.expected());
        let error = reports.errors().last().cloned().unwrap_or_default();
        late("delivered", done, wanted, over, &error)
    }

    fn reports(&self) -> &Reports {
        self.client.context()
    }
}

impl Drop for DriverProducer {
    fn drop(&mut self) {
        self.gate.end(self.server.as_ref());
        if let Some(server) = self.server.take() {
            // A panic of a callback was reported where it happened.
            let _ = server.join();
        }
    }
}

/// A fault of a command whose time is over, or whose caller is gone.
pub(super) fn late(
    what: &'static str,
    done: u64,
    wanted: u64,
    over: WaitAborted,
    error: &str,
) -> CommandError {
    match over {
        WaitAborted::Late => CommandError::Late {
            what,
            done,
            wanted,
            error: error.to_owned(),
        },
        WaitAborted::Halted => CommandError::Halted { doing: "given up" },
    }
}

/// Holds the serving thread while there is nothing to serve.
#[derive(Debug, Default)]
struct PollGate {
    is_open: AtomicBool,
    is_over: AtomicBool,
}

impl PollGate {
    /// Waits until there is work; whether there will ever be any.
    fn pass(&self) -> bool {
        loop {
            if self.is_over.load(Ordering::Acquire) {
                return false;
            }
            if self.is_open.load(Ordering::Acquire) {
                return true;
            }
            thread::park();
        }
    }

    fn open(&self, waiting: Option<&JoinHandle<()>>) {
        self.is_open.store(true, Ordering::Release);
        if let Some(waiting) = waiting {
            waiting.thread().unpark();
        }
    }

    fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    fn end(&self, waiting: Option<&JoinHandle<()>>) {
        self.is_over.store(true, Ordering::Release);
        if let Some(waiting) = waiting {
            waiting.thread().unpark();
        }
    }
}

/// Counts delivery reports.
struct Reports {
    clock: DriverClock,
    expected: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    timed: AtomicBool,
    /// Set once the mark of the last report is there.
    is_complete: AtomicBool,
    rest: Mutex<ReportDetails>,
    complete: Condvar,
}

/// What is not needed for every report.
#[derive(Default)]
struct ReportDetails {
    last: ClockMark,
    errors: Vec<String>,
    latency: DriverHistogram,
}

impl Reports {
    fn new(clock: DriverClock) -> Self {
        Self {
            clock,
            expected: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            timed: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            rest: Mutex::new(ReportDetails::default()),
            complete: Condvar::new(),
        }
    }

    fn begin(&self, expected: u64, timed: bool) {
        *self.rest() = ReportDetails {
            // Of a command without records.
            last: self.clock.mark(),
            ..ReportDetails::default()
        };
        self.done.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.timed.store(timed, Ordering::Relaxed);
        self.is_complete.store(expected == 0, Ordering::Relaxed);
        self.expected.store(expected, Ordering::Release);
    }

    fn report(&self, outcome: Result<(), &KafkaError>, due_ns: usize) {
        if let Err(error) = outcome {
            self.failed.fetch_add(1, Ordering::Relaxed);
            let text = match error {
                KafkaError::MessageProduction(code) => code.to_string(),
                error => error.to_string(),
            };
            let mut rest = self.rest();
            if rest.errors.len() < ERRORS_MAX {
                rest.errors.push(text);
            }
        } else if self.timed.load(Ordering::Relaxed) {
            let late = self.clock.now_ns() as i64 - due_ns as i64;
            self.rest().latency.record_ns(late);
        }
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        if done == self.expected() {
            let last = self.clock.mark();
            let mut rest = self.rest();
            rest.last = last;
            self.is_complete.store(true, Ordering::Release);
            self.complete.notify_all();
        }
    }

    fn expected(&self) -> u64 {
        self.expected.load(Ordering::Acquire)
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    fn are_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    fn wait(&self, wait: Duration) {
        let rest = self.rest();
        if !self.are_complete() {
            // Completion is told under this lock.
            drop(self.complete.wait_timeout(rest, wait));
        }
    }

    fn errors(&self) -> Vec<String> {
        self.rest().errors.clone()
    }

    fn reported(&self) -> Reported {
        let rest = self.rest();
        let failed = self.failed.load(Ordering::Relaxed);
        Reported {
            last: rest.last,
            acked: self.done().saturating_sub(failed),
            failed,
            errors: rest.errors.clone(),
            latency: rest.latency.distribution(),
        }
    }

    fn rest(&self) -> MutexGuard<'_, ReportDetails> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", %error, "producer: {reason}");
        let mut rest = self.rest();
        if rest.errors.len() < ERRORS_MAX {
            rest.errors.push(reason.to_owned());
        }
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, report: &DeliveryResult<'_>, due_ns: usize) {
        self.report(
            report.as_ref().map(|_| ()).map_err(|(error, _)| error),
            due_ns,
        );
    }
}

const ERRORS_MAX: usize = 5;
/// Of waits that look now and then whether they are to end.
const SLICE: Duration = Duration::from_millis(100);
/// Between two tries to hand a record to a full queue.
const QUEUE_PAUSE: Duration = Duration::from_micros(100);
