//! librdkafka producer with a thread that serves delivery reports during a command.
//!
//! To end the linger of batches, librdkafka's own flush must wait. The crate calls it without a
//! wait, so this module calls it directly ([`weir_flush`]).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::{FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use weir_flush::flush;
use weir_stats::run::Distribution;

use super::clock::{ClockMark, DriverClock};
use super::deadline::{CommandError, CommandOutcome, Deadline};
use super::histogram::DriverHistogram;
use super::settings::ClientConfigs;
use super::token::DriverToken;
use super::values::{PRIMER, PRIMER_VALUE, key};
use crate::Delivered;

pub(super) struct DriverProducer {
    client: Arc<BaseProducer<Reports>>,
    gate: Arc<PollGate>,
    server: Option<JoinHandle<()>>,
}

/// Results of the records of a command: the time of the last delivery report, the counts, and
/// delivery reports minus due times, if requested.
pub(super) type Reported = (ClockMark, Delivered, Distribution);

/// Returns a record for partition 0. The due time is for its latency.
pub(super) fn record<'a>(
    topic: &'a str,
    key: &'a [u8],
    value: &'a [u8],
    due_ns: u64,
) -> BaseRecord<'a, [u8], [u8], usize> {
    // Invariant: pointers have 64 bits on all supported machines.
    let record = BaseRecord::with_opaque_to(topic, due_ns as usize);
    record.partition(0).key(key).payload(value)
}

impl DriverProducer {
    pub(super) fn start(settings: &ClientConfigs, clock: DriverClock) -> CommandOutcome<Self> {
        let context = Reports {
            clock,
            token: settings.token.of_client(),
            ..Reports::default()
        };
        let client = BaseProducer::from_config_and_context(&settings.producer, context);
        let client = Arc::new(client.map_err(CommandError::kafka("creating a producer"))?);
        client.context().token.hand_over(|timeout| {
            client.poll(timeout);
        });
        let gate = Arc::new(PollGate::default());
        let (served, report_gate) = (Arc::clone(&client), Arc::clone(&gate));
        let server = thread::Builder::new().name("reports".to_owned());
        let server = server.spawn(move || {
            while report_gate.is_opened() {
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

    pub(super) fn clock(&self) -> DriverClock {
        self.reports().clock
    }

    /// Loads the topic's metadata, so that no record waits for it.
    pub(super) fn load_metadata(&self, topic: &str, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        let left = timeout.left("requested", (0, 1), "")?;
        let metadata = self.client.client().fetch_metadata(Some(topic), left);
        let metadata = metadata.map_err(CommandError::kafka("requesting metadata"))?;
        match metadata.topics().first().map(|found| found.error()) {
            None => Err(CommandError::topic(topic, "the response has no topic")),
            Some(Some(code)) => Err(CommandError::topic(topic, RDKafkaErrorCode::from(code))),
            Some(None) => Ok(()),
        }
    }

    /// Delivers one primer, which consumers skip.
    pub(super) fn send_primer(&self, topic: &str, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        self.start_command(1, false);
        self.send(record(topic, &key(PRIMER), &PRIMER_VALUE, 0), timeout)?;
        let (_, delivered, _) = self.finish(timeout)?;
        match delivered.errors.first() {
            Some(reason) => Err(CommandError::topic(topic, reason)),
            None => Ok(()),
        }
    }

    /// Starts a command with this number of records. Reports are served until
    /// [`finish`](Self::finish).
    pub(super) fn start_command(&self, expected: u64, timed: bool) {
        self.reports().start(expected, timed);
        self.gate.set(PollGate::OPEN, self.server.as_ref());
    }

    /// Sends a record; waits while the queue is full. A rejected record counts as failed.
    pub(super) fn send(
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
            self.left(timeout)?;
            thread::sleep(QUEUE_FULL_PAUSE);
            record = rejected;
        }
    }

    /// Flushes lingering batches and waits for all delivery reports.
    pub(super) fn finish(&self, timeout: &Deadline<'_>) -> CommandOutcome<Reported> {
        let reports = self.reports();
        while !reports.are_complete() {
            let left = self.left(timeout)?;
            let flushed = flush(self.client.client(), left.min(POLL_INTERVAL));
            if flushed.map_err(CommandError::kafka("flushing"))? {
                // The library has no more queued records; the missing reports are being delivered.
                reports.wait(left.min(POLL_INTERVAL));
            }
        }
        self.gate.set(PollGate::CLOSED, None);
        Ok(reports.reported())
    }

    fn left(&self, timeout: &Deadline<'_>) -> CommandOutcome<Duration> {
        let reports = self.reports();
        let details = reports.details();
        let error = details.errors.last().map_or("", String::as_str);
        timeout.left("delivered", (reports.done(), reports.expected()), error)
    }

    fn reports(&self) -> &Reports {
        self.client.context()
    }
}

impl Drop for DriverProducer {
    fn drop(&mut self) {
        self.gate.set(PollGate::OVER, self.server.as_ref());
        if let Some(server) = self.server.take() {
            // The panic hook has reported a panic of the thread.
            let _ = server.join();
        }
    }
}

/// Gate that blocks the serving thread between commands.
#[derive(Debug, Default)]
struct PollGate(AtomicU8);

impl PollGate {
    const CLOSED: u8 = 0;
    const OPEN: u8 = 1;
    const OVER: u8 = 2;

    /// Waits until the gate is open. Returns `false` after the end.
    fn is_opened(&self) -> bool {
        loop {
            match self.0.load(Ordering::Acquire) {
                Self::CLOSED => thread::park(),
                state => return state == Self::OPEN,
            }
        }
    }

    fn set(&self, state: u8, waiting: Option<&JoinHandle<()>>) {
        self.0.store(state, Ordering::Release);
        if let Some(waiting) = waiting {
            waiting.thread().unpark();
        }
    }
}

#[derive(Default)]
struct Reports {
    clock: DriverClock,
    token: DriverToken,
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

impl ReportDetails {
    /// Stores the error of a connection. A summary of earlier errors ("1/1 brokers are down") does
    /// not name a cause, so it counts only if nothing else is known.
    fn note(&mut self, reason: &str, is_summary: bool) {
        let is_news = !is_summary || self.errors.is_empty();
        if is_news && self.errors.len() < ERRORS_MAX {
            self.errors.push(reason.to_owned());
        }
    }
}

impl Reports {
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

    fn reported(&self) -> Reported {
        let details = std::mem::take(&mut *self.details());
        let failed = self.failed.load(Ordering::Relaxed);
        let delivered = Delivered {
            acked: self.done().saturating_sub(failed),
            failed,
            errors: details.errors,
        };
        (details.last, delivered, details.latency.distribution())
    }

    fn details(&self) -> MutexGuard<'_, ReportDetails> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Reports {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.token.give()
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", %error, "producer: {reason}");
        let is_summary = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        self.details().note(reason, is_summary);
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
/// Interval at which waits check their deadline.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pause before another attempt to send to a full queue.
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_does_not_hide_the_cause() {
        let mut details = ReportDetails::default();
        details.note("1/1 brokers are down", true);
        details.note("certificate expired", false);
        details.note("1/1 brokers are down", true);
        assert_eq!(
            details.errors.last().map(String::as_str),
            Some("certificate expired")
        );
    }
}
