//! librdkafka producer with a thread that serves delivery reports during a command.
//!
//! To end the linger of batches, librdkafka's own flush must wait. The crate calls it without a
//! wait, so this module calls it directly ([`weir_flush`]).

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

use super::deadline::{Deadline, WaitAborted};
use super::error::{CommandError, CommandOutcome, late};
use super::histogram::DriverHistogram;
use super::usage::{ClockMark, DriverClock};
use super::values::{PRIMER, PRIMER_VALUE, key};

/// Producer of a driver.
pub(super) struct DriverProducer {
    client: Arc<BaseProducer<Reports>>,
    gate: Arc<PollGate>,
    server: Option<JoinHandle<()>>,
}

/// Results of the records of a command.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reported {
    /// Time of the last delivery report.
    pub(super) last: ClockMark,
    pub(super) acked: u64,
    pub(super) failed: u64,
    pub(super) errors: Vec<String>,
    /// Delivery reports minus due times, if requested.
    pub(super) latency: ReportedDistribution,
}

impl DriverProducer {
    /// Creates the client.
    pub(super) fn start(settings: &ClientConfig, clock: DriverClock) -> CommandOutcome<Self> {
        let context = Reports::new(clock);
        let client = BaseProducer::from_config_and_context(settings, context);
        let client = Arc::new(client.map_err(CommandError::kafka("creating a producer"))?);
        let gate = Arc::new(PollGate::default());
        let (served, report_gate) = (Arc::clone(&client), Arc::clone(&gate));
        let server = thread::Builder::new().name("reports".to_owned());
        let server = server.spawn(move || {
            while report_gate.wait() {
                // Serves every report when it arrives. A timeout ends with a spin of up to a
                // millisecond, because the crate uses whole milliseconds, so it is longer than most
                // commands.
                served.poll(POLL_INTERVAL);
            }
        })?;
        Ok(Self {
            client,
            gate,
            server: Some(server),
        })
    }

    /// Loads the topic's metadata, so that no record waits for it.
    pub(super) fn load_metadata(&self, topic: &str, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        let left = timeout
            .left()
            .map_err(|reason| late("requested", 0, 1, reason, ""))?;
        let client = self.client.client();
        let metadata = client.fetch_metadata(Some(topic), left);
        let metadata = metadata.map_err(CommandError::kafka("requesting metadata"))?;
        let failed = |reason: String| CommandError::Topic {
            topic: topic.to_owned(),
            reason,
        };
        let found = metadata.topics().first();
        let found = found.ok_or_else(|| failed("the response has no topic".to_owned()))?;
        match found.error() {
            Some(code) => Err(failed(RDKafkaErrorCode::from(code).to_string())),
            None => Ok(()),
        }
    }

    /// Delivers one primer, which consumers skip.
    pub(super) fn send_primer(&self, topic: &str, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        self.start_command(1, false);
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

    /// Starts a command with this number of records. Reports are served until
    /// [`finish`](Self::finish).
    pub(super) fn start_command(&self, expected: u64, timed: bool) {
        self.reports().start(expected, timed);
        self.gate.open(self.server.as_ref());
    }

    /// Sends a record; waits while the queue is full. A rejected record counts as failed.
    pub(super) fn send(
        &self,
        topic: &str,
        key: &[u8],
        value: &[u8],
        due_ns: u64,
        timeout: &Deadline<'_>,
    ) -> CommandOutcome<()> {
        // Invariant: pointers have 64 bits on all supported machines.
        let record = BaseRecord::with_opaque_to(topic, due_ns as usize);
        self.hand_over(record.partition(0).key(key).payload(value), timeout)
    }

    /// Like [`Self::send`], for an existing record.
    pub(super) fn hand_over(
        &self,
        mut record: BaseRecord<'_, [u8], [u8], usize>,
        timeout: &Deadline<'_>,
    ) -> CommandOutcome<()> {
        loop {
            let (error, rejected) = match self.client.send(record) {
                Ok(()) => return Ok(()),
                Err(rejected) => rejected,
            };
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                self.reports().report(Err(&error), 0);
                return Ok(());
            }
            timeout.left().map_err(|reason| self.late(reason))?;
            thread::sleep(QUEUE_FULL_PAUSE);
            record = rejected;
        }
    }

    /// Flushes lingering batches and waits for all delivery reports.
    pub(super) fn finish(&self, timeout: &Deadline<'_>) -> CommandOutcome<Reported> {
        let reports = self.reports();
        while !reports.are_complete() {
            let left = timeout.left().map_err(|reason| self.late(reason))?;
            let flushed = flush(self.client.client(), left.min(POLL_INTERVAL));
            if flushed.map_err(CommandError::kafka("flushing"))? {
                // The library has no more queued records; the missing reports are being delivered.
                reports.wait(left.min(POLL_INTERVAL));
            }
        }
        self.gate.close();
        Ok(reports.reported())
    }

    fn late(&self, reason: WaitAborted) -> CommandError {
        let reports = self.reports();
        let (done, expected) = (reports.done(), reports.expected());
        let error = reports.errors().last().cloned().unwrap_or_default();
        late("delivered", done, expected, reason, &error)
    }

    fn reports(&self) -> &Reports {
        self.client.context()
    }
}

impl Drop for DriverProducer {
    fn drop(&mut self) {
        self.gate.end(self.server.as_ref());
        if let Some(server) = self.server.take() {
            // The panic hook has reported a panic of the thread.
            let _ = server.join();
        }
    }
}

/// Gate that blocks the serving thread between commands.
#[derive(Debug, Default)]
struct PollGate {
    is_open: AtomicBool,
    is_over: AtomicBool,
}

impl PollGate {
    /// Waits until the gate is open. Returns `false` after the end.
    fn wait(&self) -> bool {
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

/// Counters of delivery reports.
struct Reports {
    clock: DriverClock,
    expected: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    timed: AtomicBool,
    /// Set after the mark of the last report was stored.
    is_complete: AtomicBool,
    details: Mutex<ReportDetails>,
    complete: Condvar,
}

/// Data that most reports do not need.
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
            details: Mutex::new(ReportDetails::default()),
            complete: Condvar::new(),
        }
    }

    fn start(&self, expected: u64, timed: bool) {
        *self.details() = ReportDetails {
            // Mark for a command without records.
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
            let mut details = self.details();
            if details.errors.len() < ERRORS_MAX {
                details.errors.push(text);
            }
        } else if self.timed.load(Ordering::Relaxed) {
            let late = self.clock.now_ns() as i64 - due_ns as i64;
            self.details().latency.record_ns(late);
        }
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        if done == self.expected() {
            let last = self.clock.mark();
            let mut details = self.details();
            details.last = last;
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
        let details = self.details();
        if !self.are_complete() {
            // Completion is signalled while this lock is held.
            drop(self.complete.wait_timeout(details, wait));
        }
    }

    fn errors(&self) -> Vec<String> {
        self.details().errors.clone()
    }

    fn reported(&self) -> Reported {
        let details = self.details();
        let failed = self.failed.load(Ordering::Relaxed);
        Reported {
            last: details.last,
            acked: self.done().saturating_sub(failed),
            failed,
            errors: details.errors.clone(),
            latency: details.latency.distribution(),
        }
    }

    fn details(&self) -> MutexGuard<'_, ReportDetails> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", %error, "producer: {reason}");
        let mut details = self.details();
        if details.errors.len() < ERRORS_MAX {
            details.errors.push(reason.to_owned());
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

/// Maximum number of error texts per command.
const ERRORS_MAX: usize = 5;
/// Interval at which waits check their deadline.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pause before another attempt to send to a full queue.
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(100);
