//! Compacted topics as tables that several processes share: one reader receives all records, and a
//! writer waits for each acknowledgement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use thiserror::Error;
use weir_security::KafkaSettings;

use crate::peek::{PeekError, TopicReader, is_transient};
use crate::produce::{Acks, DeliveryError, Producer, ProducerConfig, ProducerError, SendError};

/// Timeout of a metadata request for the topic.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);
/// Delay between a failure and the next attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which `is_stopped` is checked.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of unacknowledged records of a writer.
const PENDING_MAX: usize = 1_000;

/// Event from a compacted topic.
#[derive(Debug)]
pub enum TableChange<'a> {
    /// A record. Without a value, its key is deleted.
    Record {
        /// Key; empty if the record has none.
        key: &'a [u8],
        /// Value.
        value: Option<&'a [u8]>,
    },
    /// All records that existed when reading started have been read.
    End,
    /// No new record within the poll interval.
    Idle,
    /// Reading failed and restarts at the first record.
    Failed(PeekError),
}

/// Reads all records of a topic and then new ones, until `is_stopped` returns `true`. Joins no
/// group and commits nothing.
pub fn follow_table(
    kafka: &KafkaSettings,
    topic: &str,
    is_stopped: &dyn Fn() -> bool,
    on_change: &mut dyn FnMut(TableChange<'_>),
) {
    while !is_stopped() {
        let opened = TopicReader::open(kafka, topic, METADATA_TIMEOUT);
        if let Err(error) = opened.and_then(|reader| follow(&reader, is_stopped, on_change)) {
            on_change(TableChange::Failed(error));
            let retry_at = Instant::now() + RETRY_INTERVAL;
            while Instant::now() < retry_at && !is_stopped() {
                std::thread::park_timeout(STOP_INTERVAL);
            }
        }
    }
}

fn follow(
    reader: &TopicReader<'_>,
    is_stopped: &dyn Fn() -> bool,
    on_change: &mut dyn FnMut(TableChange<'_>),
) -> Result<(), PeekError> {
    let consumer = reader.assign_all()?;
    let mut unread = reader.partitions().to_vec();
    while !is_stopped() {
        match consumer.poll(STOP_INTERVAL) {
            Some(Ok(record)) => on_change(TableChange::Record {
                key: record.key().unwrap_or_default(),
                value: record.payload(),
            }),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                let is_behind = !unread.is_empty();
                unread.retain(|one| *one != partition);
                if is_behind && unread.is_empty() {
                    on_change(TableChange::End);
                }
            }
            // librdkafka connects again.
            Some(Err(error)) if is_transient(&error) => {}
            Some(Err(error)) => return Err(error.into()),
            None => on_change(TableChange::Idle),
        }
    }
    Ok(())
}

/// Reason why a record was not confirmed as written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum TableWriteError {
    #[error(transparent)]
    Start(#[from] ProducerError),
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    #[error("no broker acknowledged the record within {0:?}")]
    Timeout(Duration),
}

/// Outcome of a record, for the thread that waits for it.
type Outcome = SyncSender<Result<(), DeliveryError>>;

/// Writes records of one topic.
pub struct TableWriter {
    topic: String,
    timeout: Duration,
    config: ProducerConfig,
    /// Started with the first record.
    producer: Mutex<Option<Arc<Producer>>>,
    waiting: Arc<Mutex<HashMap<u64, Outcome>>>,
    last_token: AtomicU64,
}

impl TableWriter {
    /// Creates a writer. Brokers must acknowledge a record within `timeout`.
    pub fn new(kafka: KafkaSettings, client_id: &str, topic: &str, timeout: Duration) -> Self {
        let config = ProducerConfig {
            kafka: kafka.with_property("message.timeout.ms", timeout.as_millis()),
            client_id: client_id.to_owned(),
            acks: Acks::All,
            // An idempotent producer can fail for good and would have to be replaced. A repeated
            // record of a table changes nothing.
            idempotent: false,
            queue_max_messages: PENDING_MAX,
            ..ProducerConfig::default()
        };
        Self {
            topic: topic.to_owned(),
            timeout,
            config,
            producer: Mutex::default(),
            waiting: Arc::default(),
            last_token: AtomicU64::new(0),
        }
    }

    /// Writes a record, or deletes its key, and waits for the acknowledgement.
    ///
    /// # Errors
    /// The record was not acknowledged. The broker may have stored it nevertheless.
    pub fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), TableWriteError> {
        let producer = self.producer()?;
        let token = self.last_token.fetch_add(1, Ordering::Relaxed);
        let (outcome, outcomes) = sync_channel(1);
        lock(&self.waiting).insert(token, outcome);
        let sent = producer.send(&self.topic, None, Some(key), value, &[], None, token);
        // librdkafka reports the end of its own timeout a little later.
        let waited = sent.map(|()| outcomes.recv_timeout(self.timeout + RETRY_INTERVAL));
        lock(&self.waiting).remove(&token);
        match waited? {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(TableWriteError::Timeout(self.timeout)),
        }
    }

    fn producer(&self) -> Result<Arc<Producer>, ProducerError> {
        let mut producer = lock(&self.producer);
        if let Some(started) = &*producer {
            return Ok(Arc::clone(started));
        }
        let waiting = Arc::clone(&self.waiting);
        let started = Producer::start(
            &self.config,
            Box::new(move |report| {
                if let Some(outcome) = lock(&waiting).remove(&report.token) {
                    // The waiting thread may have timed out.
                    let _ = outcome.try_send(report.result.map(|_| ()));
                }
            }),
        )?;
        Ok(Arc::clone(producer.insert(Arc::new(started))))
    }
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_without_broker_is_an_error_in_time() {
        let kafka = KafkaSettings::plaintext("127.0.0.1:1");
        let timeout = Duration::from_millis(100);
        let writer = TableWriter::new(kafka, "test", "t", timeout);
        let start = Instant::now();
        let written = writer.write(b"key", None);
        assert!(
            matches!(
                written,
                Err(TableWriteError::Delivery(_) | TableWriteError::Timeout(_))
            ),
            "{written:?}"
        );
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(lock(&writer.waiting).is_empty());
    }

    #[test]
    fn unreachable_topic_is_reported_until_stopped() {
        let kafka = KafkaSettings::plaintext("127.0.0.1:1");
        let stopped = std::cell::Cell::new(false);
        let mut failures = 0;
        follow_table(&kafka, "t", &|| stopped.get(), &mut |change| {
            assert!(matches!(change, TableChange::Failed(_)), "{change:?}");
            failures += 1;
            stopped.set(true);
        });
        assert_eq!(failures, 1);
    }
}
