//! A librdkafka producer with its own poll thread. Delivery reports carry the caller's token.
//!
//! The send queue is bounded. If it is full, `send` returns an error and the caller decides.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::OAuthToken;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext, Statistics};
use thiserror::Error;
use weir_security::{KafkaSettings, Security, SettingsError};

use crate::connect_error::ConnectError;
use crate::properties::{self, PropertyError};
use crate::refusals::Refusals;

/// Acknowledgement that a record requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::Display, strum::EnumString)]
#[strum(parse_err_fn = unknown_acks, parse_err_ty = ProducerError)]
pub enum Acks {
    /// None: a record counts as delivered when it is written to the socket, and has no offset.
    #[strum(serialize = "0")]
    None,
    /// From the partition leader.
    #[strum(serialize = "1")]
    Leader,
    /// From all in-sync replicas. Also makes the producer idempotent, unless
    /// [`ProducerConfig::idempotent`] is `false`.
    #[default]
    #[strum(to_string = "all", serialize = "-1")]
    All,
}

fn unknown_acks(value: &str) -> ProducerError {
    let value = value.to_owned();
    ProducerError::UnknownAcks { value }
}

/// Configuration of a [`Producer`].
#[derive(Debug, Clone, PartialEq)]
pub struct ProducerConfig {
    /// Cluster to write to. Its properties override everything but `bootstrap.servers`.
    pub kafka: KafkaSettings,
    /// Name shown in broker logs and quotas, unless the cluster's properties have a `client.id`.
    pub client_id: String,
    /// Required acknowledgement. Default `all`, as in the Java client.
    pub acks: Acks,
    /// With [`Acks::All`], prevents retries from duplicating or reordering records. Default `true`.
    /// librdkafka then has one batch per partition in flight. While other batches wait, its thread
    /// polls without pause, which can use a whole core at thousands of records per second.
    pub idempotent: bool,
    /// Time to wait for more records of a batch, in milliseconds, with fractions. Default 0,
    /// because a load producer measures latency.
    pub linger_ms: f64,
    /// Maximum batch size in bytes. Default 1,000,000.
    pub batch_bytes: usize,
    /// Compression codec: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
    pub compression: String,
    /// Queued and in-flight records above which `send` reports a full queue. Default 100,000.
    pub queue_max_messages: usize,
    /// Id of the producer's transactions, which makes it idempotent; `None`: it has none.
    pub transactional_id: Option<String>,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            kafka: KafkaSettings::plaintext("localhost:9092"),
            client_id: "weir".to_owned(),
            acks: Acks::All,
            idempotent: true,
            linger_ms: 0.0,
            batch_bytes: 1_000_000,
            compression: "none".to_owned(),
            queue_max_messages: 100_000,
            transactional_id: None,
        }
    }
}

/// Result of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Token passed to [`Producer::send`].
    pub token: u64,
    /// Partition and offset, or the reason why there is none. With [`Acks::None`] the offset is
    /// negative.
    pub result: Result<(i32, i64), DeliveryError>,
}

/// Reason why a record was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeliveryError {
    /// A broker or the client rejected the record; it is not stored.
    #[error("{0}")]
    Refused(String),
    /// No broker acknowledged the record in time. It may be stored.
    #[error("{0}")]
    Unconfirmed(String),
}

impl DeliveryError {
    fn new(code: RDKafkaErrorCode) -> Self {
        match code {
            RDKafkaErrorCode::MessageTimedOut
            | RDKafkaErrorCode::PurgeQueue
            | RDKafkaErrorCode::PurgeInflight
            | RDKafkaErrorCode::RequestTimedOut
            | RDKafkaErrorCode::NotEnoughReplicasAfterAppend
            | RDKafkaErrorCode::Fatal => Self::Unconfirmed(code.to_string()),
            code => Self::Refused(code.to_string()),
        }
    }
}

/// Reason why a producer could not be started or metadata not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum ProducerError {
    #[error("unknown acks \"{value}\": use 0, 1 or all")]
    UnknownAcks { value: String },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A broker rejected the login, or its certificate was rejected.
    #[error(transparent)]
    Refused(#[from] ConnectError),
    #[error("producer configuration rejected: {0}")]
    Rejected(#[from] KafkaError),
    #[error("no metadata for topic \"{topic}\" from \"{bootstrap_servers}\": {reason}")]
    Metadata {
        topic: String,
        bootstrap_servers: String,
        reason: String,
    },
}

/// Reason why a record was not queued.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendError {
    /// The queue is full. The caller can wait for delivery reports, or drop the record.
    #[error("the producer queue is full: wait for deliveries or raise queue_max_messages")]
    QueueFull,
    /// The record can never be sent, because it is too large, its partition does not exist, ...
    #[error("record rejected: {0}")]
    Fatal(String),
}

/// Reason why a step of a transaction failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot {step} a transaction at \"{bootstrap_servers}\": {reason}")]
pub struct TransactionError {
    step: &'static str,
    bootstrap_servers: String,
    reason: String,
}

impl TransactionError {
    fn new(step: &'static str, bootstrap_servers: &str, error: &KafkaError) -> Self {
        let reason = match error {
            KafkaError::Transaction(error) => error.to_string(),
            other => other.to_string(),
        };
        let bootstrap_servers = bootstrap_servers.to_owned();
        Self {
            step,
            bootstrap_servers,
            reason,
        }
    }
}

/// A running producer. Dropping it discards queued records; each gets a failed delivery report.
pub struct Producer {
    client: ThreadedProducer<ProduceContext>,
    pending: Arc<PendingRecords>,
    wire_bytes: Arc<AtomicU64>,
    bootstrap_servers: String,
}

impl Producer {
    /// Starts librdkafka and the poll thread; does not wait for a broker. `on_delivery` runs on the
    /// poll thread and must not block.
    pub fn start(
        config: &ProducerConfig,
        on_delivery: Box<dyn Fn(DeliveryReport) + Send + Sync>,
    ) -> Result<Self, ProducerError> {
        let pending = Arc::new(PendingRecords::default());
        let wire_bytes = Arc::new(AtomicU64::new(0));
        let context = ProduceContext {
            refusals: Refusals::new(&config.kafka),
            security: Arc::clone(&config.kafka.security),
            on_delivery,
            pending: Arc::clone(&pending),
            wire_bytes: Arc::clone(&wire_bytes),
        };
        let client_config = client_config(config)?;
        Ok(Self {
            client: ThreadedProducer::from_config_and_context(&client_config, context)?,
            pending,
            wire_bytes,
            bootstrap_servers: config.kafka.bootstrap_servers.clone(),
        })
    }

    /// Waits up to `timeout` for the topic's metadata and returns its number of partitions. Called
    /// before the first record so that connecting does not delay it.
    ///
    /// # Errors
    /// At once if a broker rejects the login or its certificate is rejected.
    pub fn partitions(&self, topic: &str, timeout: Duration) -> Result<usize, ProducerError> {
        let failed = |reason: String| ProducerError::Metadata {
            topic: topic.to_owned(),
            bootstrap_servers: self.bootstrap_servers.clone(),
            reason,
        };
        let deadline = Instant::now() + timeout;
        // In short steps, because librdkafka retries after a refusal until the timeout.
        let metadata = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let client = self.client.client();
            match client.fetch_metadata(Some(topic), left.min(METADATA_STEP)) {
                Ok(metadata) => break metadata,
                Err(error) => {
                    let (refusals, is_last) = (&client.context().refusals, left <= METADATA_STEP);
                    let refusal = match is_last {
                        true => refusals.likely(),
                        false => refusals.latest(),
                    };
                    match refusal {
                        Some(refusal) => return Err(refusal.into()),
                        None if is_last => return Err(failed(error.to_string())),
                        None => {}
                    }
                }
            }
        };
        let Some(found) = metadata.topics().first() else {
            return Err(failed("the response contains no topic".to_owned()));
        };
        match found.error() {
            Some(code) => Err(failed(RDKafkaErrorCode::from(code).to_string())),
            None => Ok(found.partitions().len()),
        }
    }

    /// Queues one record without blocking. With `value: None` it is a tombstone. With
    /// `partition: None` the hash of the key selects the partition, and records without a key are
    /// distributed. With `timestamp_ms: None` the current time is used. The [`DeliveryReport`]
    /// returns the `token`.
    #[allow(clippy::too_many_arguments)] // a record has this many parts
    pub fn send(
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

    /// Registers the transactional id, which ends an open transaction of an earlier producer with
    /// this id. Called once, before the first transaction.
    ///
    /// # Errors
    /// No coordinator registered it before the timeout, or it is not allowed.
    pub fn init_transactions(&self, timeout: Duration) -> Result<(), TransactionError> {
        let done = self.client.init_transactions(timeout);
        done.map_err(|error| self.failed("initialize", &error))
    }

    /// Begins a transaction, to which all records belong until it ends. Sends nothing.
    ///
    /// # Errors
    /// The last transaction has not ended, or another producer has the transactional id now.
    pub fn begin_transaction(&self) -> Result<(), TransactionError> {
        let begun = self.client.begin_transaction();
        begun.map_err(|error| self.failed("begin", &error))
    }

    /// Waits until all records are acknowledged and commits the transaction.
    ///
    /// # Errors
    /// A record failed, another producer has the transactional id now, or the timeout has passed.
    /// The transaction is then aborted.
    pub fn commit_transaction(&self, timeout: Duration) -> Result<(), TransactionError> {
        // Else librdkafka waits for the records, in steps of 100 ms.
        let deadline = Instant::now() + timeout;
        self.flush(timeout);
        let left = deadline.saturating_duration_since(Instant::now());
        let Err(error) = self.client.commit_transaction(left) else {
            return Ok(());
        };
        // The broker ends a transaction that cannot be aborted either, after its own timeout.
        let _ = self.client.abort_transaction(timeout);
        Err(self.failed("commit", &error))
    }

    fn failed(&self, step: &'static str, error: &KafkaError) -> TransactionError {
        TransactionError::new(step, &self.bootstrap_servers, error)
    }

    /// Returns the bytes written to sockets of brokers. librdkafka updates the value every second.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes.load(Ordering::Relaxed)
    }

    /// Returns the error after which the producer sends nothing more and must be replaced. Only an
    /// idempotent producer can have one.
    pub fn fatal_error(&self) -> Option<String> {
        let error = self.client.client().fatal_error();
        error.map(|(_, text)| text)
    }

    /// Returns the number of queued records without a delivery report.
    pub fn in_flight(&self) -> usize {
        self.pending.count.load(Ordering::Acquire)
    }

    /// Waits up to `timeout` until every record has a delivery report. Returns the number of
    /// records without one.
    ///
    /// The flush of `rdkafka` works in steps of 100 ms, so this function waits for the count
    /// instead.
    pub fn flush(&self, timeout: Duration) -> usize {
        self.pending.wait_empty(Instant::now() + timeout)
    }
}

/// Number of records without a delivery report.
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
            // The bounded wait covers a report between the check and the wait.
            let wait = (deadline - now).min(FLUSH_WAIT_MAX);
            let waited = self.empty.wait_timeout(guard, wait);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::AcqRel);
        left
    }
}

struct ProduceContext {
    refusals: Refusals,
    security: Arc<Security>,
    on_delivery: Box<dyn Fn(DeliveryReport) + Send + Sync>,
    pending: Arc<PendingRecords>,
    wire_bytes: Arc<AtomicU64>,
}

impl ClientContext for ProduceContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.refusals.note_log(facility, message);
        properties::log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.refusals.note(&error, reason);
        tracing::warn!(target: "librdkafka", %error, reason, "producer error");
    }

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        properties::oauth_token(&self.security)
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
            Err((KafkaError::MessageProduction(code), _)) => Err(DeliveryError::new(*code)),
            Err((error, _)) => Err(DeliveryError::Refused(error.to_string())),
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
    let mut client_config = properties::base(&config.kafka, &config.client_id)?;
    client_config
        .set("acks", config.acks.to_string())
        .set("enable.idempotence", idempotent.to_string())
        // Maximum for an idempotent producer, and the default of the Java client.
        .set("max.in.flight.requests.per.connection", "5")
        .set("linger.ms", config.linger_ms.to_string())
        .set("batch.size", config.batch_bytes.to_string())
        .set("compression.type", &config.compression)
        .set("statistics.interval.ms", STATISTICS_INTERVAL_MS)
        .set(
            "queue.buffering.max.messages",
            config.queue_max_messages.to_string(),
        )
        .set("queue.buffering.max.kbytes", QUEUE_KBYTES_MAX);
    if let Some(id) = &config.transactional_id {
        client_config.set("transactional.id", id);
    }
    properties::apply(&mut client_config, &config.kafka, &OWNED)?;
    Ok(client_config)
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

/// librdkafka passes the token as a pointer-sized number.
const _: () = assert!(usize::BITS >= u64::BITS);

const OWNED: [&str; 1] = ["bootstrap.servers"];
/// 256 MiB, a quarter of librdkafka's default, to bound the memory while a broker is unavailable.
const QUEUE_KBYTES_MAX: &str = "262144";
const STATISTICS_INTERVAL_MS: &str = "1000";
const METADATA_STEP: Duration = Duration::from_millis(500);
const FLUSH_WAIT_MAX: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_use_kafka_values() {
        for (text, acks) in [("0", Acks::None), ("1", Acks::Leader), ("all", Acks::All)] {
            assert_eq!(text.parse(), Ok(acks));
            assert_eq!(acks.to_string(), text);
        }
        let error = "2".parse::<Acks>().expect_err("unknown value");
        assert_eq!(error.to_string(), "unknown acks \"2\": use 0, 1 or all");
    }

    #[test]
    fn invalid_config_error_names_property() {
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
    fn queue_is_bounded_without_broker() {
        let config = ProducerConfig {
            kafka: KafkaSettings::plaintext("127.0.0.1:1"),
            queue_max_messages: 2,
            ..ProducerConfig::default()
        };
        let producer = Producer::start(&config, Box::new(|_| ())).expect("starts without a broker");
        for token in 0..2 {
            producer
                .send("t", Some(0), None, Some(b"v"), &[], None, token)
                .expect("fits");
        }
        let full = producer.send("t", Some(0), None, Some(b"v"), &[], None, 2);
        assert_eq!(full, Err(SendError::QueueFull));
        assert_eq!(producer.in_flight(), 2);
        assert_eq!(producer.flush(Duration::from_millis(5)), 2);
    }
}
