//! One librdkafka producer with its own poll thread. Delivery reports carry the caller's token.
//!
//! The queue towards the broker is bounded; when it is full `send` says so and the caller decides.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Statistics};
use thiserror::Error;

use crate::properties::{self, PropertyError};

/// Which acknowledgement a record waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acks {
    /// None: delivery means "handed to the socket" and carries no offset.
    None,
    /// The partition leader has it.
    Leader,
    /// All in-sync replicas have it. Also makes the producer idempotent, unless
    /// [`ProducerConfig::idempotent`] says otherwise.
    #[default]
    All,
}

impl fmt::Display for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "0",
            Self::Leader => "1",
            Self::All => "all",
        })
    }
}

impl FromStr for Acks {
    type Err = ProducerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "0" => Ok(Self::None),
            "1" => Ok(Self::Leader),
            "all" | "-1" => Ok(Self::All),
            _ => Err(ProducerError::UnknownAcks {
                value: text.to_owned(),
            }),
        }
    }
}

/// Settings of a [`Producer`].
#[derive(Debug, Clone, PartialEq)]
pub struct ProducerConfig {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Name shown in broker logs and quotas.
    pub client_id: String,
    /// Default `all`, as in Kafka's own client.
    pub acks: Acks,
    /// With [`Acks::All`], that a retry can neither duplicate nor reorder; default yes. librdkafka then
    /// has one batch of a partition under way, and while more wait for its answer, its thread polls
    /// without pause: at thousands of records a second that can take a whole core.
    pub idempotent: bool,
    /// How long a batch may wait for company, in milliseconds, fractions allowed. Default 0: a
    /// load producer measures latency.
    pub linger_ms: f64,
    /// Largest batch in bytes. Default 1,000,000.
    pub batch_bytes: usize,
    /// `none`, `gzip`, `snappy`, `lz4` or `zstd`.
    pub compression: String,
    /// Records that may wait or be in flight before `send` reports a full queue. Default 100,000.
    pub queue_max_messages: usize,
    /// Further librdkafka properties; they override everything but `bootstrap.servers`.
    pub properties: Vec<(String, String)>,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            bootstrap_servers: "localhost:9092".to_owned(),
            client_id: "weir".to_owned(),
            acks: Acks::All,
            idempotent: true,
            linger_ms: 0.0,
            batch_bytes: 1_000_000,
            compression: "none".to_owned(),
            queue_max_messages: 100_000,
            properties: Vec::new(),
        }
    }
}

/// What became of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The token given to [`Producer::send`].
    pub token: u64,
    /// Partition and offset, or why it was not stored. With [`Acks::None`] the offset is negative.
    pub result: Result<(i32, i64), String>,
}

/// Why a producer could not be started or asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProducerError {
    /// `acks` is none of the known words.
    #[error("unknown acks \"{value}\": use 0, 1 or all")]
    UnknownAcks {
        /// The text given.
        value: String,
    },
    /// A property that this client decides.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// librdkafka refused the settings; its message names the property.
    #[error("producer settings refused: {reason}")]
    Refused {
        /// librdkafka's text.
        reason: String,
    },
    /// The poll thread could not be started.
    #[error("cannot start the producer's poll thread: {reason}")]
    Thread {
        /// The operating system's text.
        reason: String,
    },
    /// The topic's metadata could not be had in time.
    #[error("no metadata for topic \"{topic}\" from \"{bootstrap_servers}\": {reason}")]
    Metadata {
        /// Topic asked for.
        topic: String,
        /// Servers asked.
        bootstrap_servers: String,
        /// librdkafka's text.
        reason: String,
    },
}

/// Why a record was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendError {
    /// The local queue is full: wait for deliveries, or drop and count.
    #[error("the producer queue is full: wait for deliveries or raise queue_max_messages")]
    QueueFull,
    /// This record can never be sent (too large, unknown topic or partition, ...).
    #[error("record refused: {0}")]
    Fatal(String),
}

/// A running producer. Dropping it throws away what is still queued (each with a failed delivery).
pub struct Producer {
    client: Arc<BaseProducer<ProduceContext>>,
    pending: Arc<PendingRecords>,
    wire_bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    bootstrap_servers: String,
}

impl Producer {
    /// Starts librdkafka and the poll thread; does not wait for a broker. `on_delivery` runs on
    /// the poll thread and must not block.
    pub fn start(
        config: &ProducerConfig,
        on_delivery: Box<dyn Fn(DeliveryReport) + Send + Sync>,
    ) -> Result<Self, ProducerError> {
        let pending = Arc::new(PendingRecords::default());
        let wire_bytes = Arc::new(AtomicU64::new(0));
        let context = ProduceContext {
            on_delivery,
            pending: Arc::clone(&pending),
            wire_bytes: Arc::clone(&wire_bytes),
        };
        let settings = client_config(config)?;
        let client =
            BaseProducer::from_config_and_context(&settings, context).map_err(|error| {
                ProducerError::Refused {
                    reason: error.to_string(),
                }
            })?;
        let client = Arc::new(client);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = spawn_poll_thread(&client, &stop)?;
        Ok(Self {
            client,
            pending,
            wire_bytes,
            stop,
            thread: Some(thread),
            bootstrap_servers: config.bootstrap_servers.clone(),
        })
    }

    /// Waits until the topic's metadata is known and tells its number of partitions, so that the
    /// first record does not pay for connecting.
    pub fn partitions(&self, topic: &str, timeout: Duration) -> Result<usize, ProducerError> {
        let failed = |reason: String| ProducerError::Metadata {
            topic: topic.to_owned(),
            bootstrap_servers: self.bootstrap_servers.clone(),
            reason,
        };
        let metadata = self
            .client
            .client()
            .fetch_metadata(Some(topic), timeout)
            .map_err(|error| failed(error.to_string()))?;
        let Some(found) = metadata.topics().first() else {
            return Err(failed("the answer names no topic".to_owned()));
        };
        match found.error() {
            Some(code) => Err(failed(RDKafkaErrorCode::from(code).to_string())),
            None => Ok(found.partitions().len()),
        }
    }

    /// Queues one record; never blocks. `partition: None` lets the key's hash decide (a null key
    /// spreads). `timestamp_ms: None` stamps it now. The `token` comes back with the [`Delivery`].
    #[allow(clippy::too_many_arguments)] // a record has this many parts
    pub fn send(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        value: &[u8],
        headers: &[(&str, &[u8])],
        timestamp_ms: Option<i64>,
        token: u64,
    ) -> Result<(), SendError> {
        self.send_value(
            topic,
            partition,
            key,
            Some(value),
            headers,
            timestamp_ms,
            token,
        )
    }

    /// Like [`send`](Self::send) with a null value, Kafka's mark of deletion.
    pub fn send_tombstone(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        headers: &[(&str, &[u8])],
        timestamp_ms: Option<i64>,
        token: u64,
    ) -> Result<(), SendError> {
        self.send_value(topic, partition, key, None, headers, timestamp_ms, token)
    }

    /// Bytes written to brokers' sockets, as librdkafka told last: each second.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes.load(Ordering::Relaxed)
    }

    /// Records taken by `send` and not reported yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.pending.count.load(Ordering::Acquire)
    }

    /// Waits until every record is reported or `timeout` is over; tells how many are left.
    ///
    /// The crate's own flush steps in 100 ms, so this one waits for the count to reach zero.
    pub fn flush(&self, timeout: Duration) -> usize {
        self.pending.wait_empty(Instant::now() + timeout)
    }

    #[allow(clippy::too_many_arguments)] // see `send`
    fn send_value(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, &[u8])],
        timestamp_ms: Option<i64>,
        token: u64,
    ) -> Result<(), SendError> {
        let record = BaseRecord {
            topic,
            partition,
            payload: value,
            key,
            timestamp: timestamp_ms,
            headers: owned_headers(headers),
            delivery_opaque: token as usize,
        };
        self.pending.add();
        match self.client.send(record) {
            Ok(()) => Ok(()),
            Err((error, _)) => {
                self.pending.remove();
                Err(send_error(&error))
            }
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic of the callback was reported where it happened; nothing is left to do here.
            let _ = thread.join();
        }
    }
}

/// Counts records between `send` and their report.
#[derive(Default)]
struct PendingRecords {
    count: AtomicUsize,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    empty: Condvar,
}

impl PendingRecords {
    fn add(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    fn remove(&self) {
        let before = self.count.fetch_sub(1, Ordering::AcqRel);
        if before == 1 && self.waiters.load(Ordering::Acquire) > 0 {
            let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.empty.notify_all();
        }
    }

    fn wait_empty(&self, deadline: Instant) -> usize {
        self.waiters.fetch_add(1, Ordering::AcqRel);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let left = loop {
            let count = self.count.load(Ordering::Acquire);
            let now = Instant::now();
            if count == 0 || now >= deadline {
                break count;
            }
            // The slice covers a report between the count and the wait.
            let slice = (deadline - now).min(FLUSH_SLICE);
            guard = match self.empty.wait_timeout(guard, slice) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        };
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::AcqRel);
        left
    }
}

struct ProduceContext {
    on_delivery: Box<dyn Fn(DeliveryReport) + Send + Sync>,
    pending: Arc<PendingRecords>,
    wire_bytes: Arc<AtomicU64>,
}

impl ClientContext for ProduceContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        properties::log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", %error, "producer: {reason}");
    }

    fn stats(&self, statistics: Statistics) {
        let bytes = u64::try_from(statistics.tx_bytes).unwrap_or(0);
        self.wire_bytes.store(bytes, Ordering::Relaxed);
    }
}

impl ProducerContext for ProduceContext {
    type DeliveryOpaque = usize;

    fn delivery(&self, report: &DeliveryResult<'_>, token: usize) {
        let result = match report {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((KafkaError::MessageProduction(code), _)) => Err(code.to_string()),
            Err((error, _)) => Err(error.to_string()),
        };
        (self.on_delivery)(DeliveryReport {
            token: token as u64,
            result,
        });
        self.pending.remove();
    }
}

fn client_config(config: &ProducerConfig) -> Result<ClientConfig, ProducerError> {
    let idempotent = config.acks == Acks::All && config.idempotent;
    let mut settings = properties::base(&config.bootstrap_servers, &config.client_id);
    settings
        .set("acks", config.acks.to_string())
        .set("enable.idempotence", idempotent.to_string())
        // As many as an idempotent producer may have, and Kafka's own has.
        .set("max.in.flight.requests.per.connection", "5")
        .set("linger.ms", config.linger_ms.to_string())
        .set("batch.size", config.batch_bytes.to_string())
        .set("compression.type", &config.compression)
        .set("statistics.interval.ms", STATISTICS_EVERY_MS)
        .set(
            "queue.buffering.max.messages",
            config.queue_max_messages.to_string(),
        )
        .set("queue.buffering.max.kbytes", QUEUE_KBYTES_MAX);
    properties::apply(&mut settings, &config.properties, &OWNED)?;
    Ok(settings)
}

fn spawn_poll_thread(
    client: &Arc<BaseProducer<ProduceContext>>,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<()>, ProducerError> {
    let client = Arc::clone(client);
    let stop = Arc::clone(stop);
    std::thread::Builder::new()
        .name("kafka-produce".to_owned())
        .spawn(move || {
            while !stop.load(Ordering::Acquire) {
                // Serves every report as it comes and returns when the slice is over.
                client.poll(POLL_SLICE);
            }
        })
        .map_err(|error| ProducerError::Thread {
            reason: error.to_string(),
        })
}

fn owned_headers(headers: &[(&str, &[u8])]) -> Option<OwnedHeaders> {
    if headers.is_empty() {
        return None;
    }
    let list = OwnedHeaders::new_with_capacity(headers.len());
    Some(headers.iter().fold(list, |list, (key, value)| {
        list.insert(Header {
            key,
            value: Some(*value),
        })
    }))
}

fn send_error(error: &KafkaError) -> SendError {
    match error {
        KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) => SendError::QueueFull,
        KafkaError::MessageProduction(code) => SendError::Fatal(code.to_string()),
        other => SendError::Fatal(other.to_string()),
    }
}

/// A token travels through librdkafka as a pointer-sized number.
const _: () = assert!(usize::BITS >= u64::BITS);

const OWNED: [&str; 1] = ["bootstrap.servers"];
/// 256 MiB: a quarter of librdkafka's default, so a dead broker cannot eat the machine.
const QUEUE_KBYTES_MAX: &str = "262144";
/// How often librdkafka tells what it has written.
const STATISTICS_EVERY_MS: &str = "1000";
/// How long stopping may take; reports are served at once within a slice.
const POLL_SLICE: Duration = Duration::from_millis(20);
const FLUSH_SLICE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_words_are_kafkas() {
        for (text, acks) in [("0", Acks::None), ("1", Acks::Leader), ("all", Acks::All)] {
            assert_eq!(text.parse(), Ok(acks));
            assert_eq!(acks.to_string(), text);
        }
        let error = "2".parse::<Acks>().expect_err("not a word");
        assert_eq!(error.to_string(), "unknown acks \"2\": use 0, 1 or all");
    }

    #[test]
    fn a_refused_setting_names_the_property() {
        let config = ProducerConfig {
            compression: "brotli".to_owned(),
            ..ProducerConfig::default()
        };
        let Err(error) = Producer::start(&config, Box::new(|_| ())) else {
            panic!("brotli accepted");
        };
        let text = error.to_string();
        assert!(
            text.contains("compression.type") && text.contains("brotli"),
            "{text}"
        );
    }

    #[test]
    fn without_a_broker_records_wait_and_the_queue_is_bounded() {
        let config = ProducerConfig {
            bootstrap_servers: "127.0.0.1:1".to_owned(),
            queue_max_messages: 2,
            ..ProducerConfig::default()
        };
        let producer = Producer::start(&config, Box::new(|_| ())).expect("starts without a broker");
        for token in 0..2 {
            producer
                .send("t", Some(0), None, b"v", &[], None, token)
                .expect("fits");
        }
        let full = producer.send("t", Some(0), None, b"v", &[], None, 2);
        assert_eq!(full, Err(SendError::QueueFull));
        assert_eq!(producer.in_flight(), 2);
        assert_eq!(producer.flush(Duration::from_millis(5)), 2);
    }
}
