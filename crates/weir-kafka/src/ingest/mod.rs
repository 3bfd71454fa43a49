//! Reads whole topics by direct assignment, never in a consumer group, and commits nothing.
//!
//! `poll` runs on the caller's thread and only takes records; a small discovery thread asks for
//! metadata and start offsets, so a slow broker answer never delays a record.

mod client;
mod discovery;
mod state;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use thiserror::Error;

use crate::properties::PropertyError;
use crate::record::{HeaderList, Record};
use client::Context;
use state::Shared;

/// Where reading starts in partitions that exist when ingest first sees their topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartFrom {
    /// Behind the newest record: only what is produced once [`SourceStatus::ready`] is certain.
    #[default]
    Latest,
    /// At the oldest record kept.
    Earliest,
}

/// Settings of a [`KafkaIngest`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngestConfig {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Name shown in broker logs and quotas.
    pub client_id: String,
    /// Sent along for the broker's authorization and logs; nothing is committed or joined.
    /// Default: the client id.
    pub group_id: Option<String>,
    /// Topics to read; all their partitions are read.
    pub topics: Vec<String>,
    /// Where to start. Partitions created later are always read from their beginning.
    pub from: StartFrom,
    /// Further librdkafka properties; those this client decides are refused.
    pub properties: Vec<(String, String)>,
}

/// Why ingest cannot start or cannot go on. Lost brokers are no error: see [`SourceStatus`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// There is nothing to read.
    #[error("no topic to read: name at least one")]
    NoTopic,
    /// The name can belong to no topic.
    #[error("\"{topic}\" is no topic name: use 1 to 249 letters, digits, '.', '_' or '-'")]
    TopicName {
        /// The name given.
        topic: String,
    },
    /// A property that this client decides.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// librdkafka refused the settings; its message names the property.
    #[error("consumer settings refused: {reason}")]
    Refused {
        /// librdkafka's text.
        reason: String,
    },
    /// The discovery thread could not be started.
    #[error("cannot start the discovery thread: {reason}")]
    Thread {
        /// The operating system's text.
        reason: String,
    },
    /// librdkafka declared the instance unusable.
    #[error("kafka consumer failed for good: {reason}")]
    Fatal {
        /// librdkafka's text.
        reason: String,
    },
}

/// How a source is doing, as far as it knows without asking anyone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceStatus {
    /// Brokers answer, every topic has been looked up and every partition found has a start
    /// offset: whatever is produced from now on will be delivered. A topic that does not exist
    /// yet does not hold this back, because it will be read from its beginning.
    pub ready: bool,
    /// One entry per configured topic, in that order.
    pub topics: Vec<TopicStatus>,
    /// Newest error text, kept after recovery.
    pub last_error: Option<String>,
    /// Errors since start.
    pub errors: u64,
    /// Header names left out because they are not UTF-8.
    pub headers_skipped: u64,
}

/// One topic of a [`SourceStatus`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicStatus {
    /// Topic name.
    pub topic: String,
    /// Whether the cluster had it when last asked.
    pub exists: bool,
    /// Partitions being read.
    pub partitions: usize,
}

/// How far one partition's reader is behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLag {
    /// Topic name.
    pub topic: String,
    /// Partition of that topic.
    pub partition: i32,
    /// Offset that will be delivered next.
    pub position: i64,
    /// End of the partition as last told by its leader with fetched data, about a second old;
    /// `None` until the first such answer.
    pub end: Option<i64>,
}

impl PartitionLag {
    /// Records between position and end; `None` if the end is not known yet.
    #[must_use]
    pub fn records(&self) -> Option<u64> {
        let end = self.end?;
        Some(u64::try_from(end.saturating_sub(self.position)).unwrap_or(0))
    }
}

/// A stream of records. Order is kept within a partition.
pub trait RecordSource: Send {
    /// Waits up to `timeout` for a first record, then hands over what is there, at most `max`
    /// records. Tells how many were handed over.
    ///
    /// # Errors
    /// Only when the source can never deliver again.
    fn poll(
        &mut self,
        timeout: Duration,
        max: usize,
        sink: &mut dyn FnMut(Record<'_>),
    ) -> Result<usize, SourceError>;

    /// How the source is doing; asks no broker.
    fn status(&self) -> SourceStatus;

    /// Lag per partition from cached figures; asks no broker.
    fn lag(&mut self) -> Vec<PartitionLag>;
}

/// The librdkafka implementation of [`RecordSource`].
pub struct KafkaIngest {
    consumer: Arc<BaseConsumer<Context>>,
    shared: Arc<Shared>,
    discovery: Option<JoinHandle<()>>,
    /// Next offset per topic and partition, from delivered records.
    delivered: HashMap<String, HashMap<i32, i64>>,
    headers_skipped: u64,
}

impl KafkaIngest {
    /// Starts reading in the background; does not wait for a broker.
    ///
    /// # Errors
    /// Settings that can never work.
    pub fn start(config: &IngestConfig) -> Result<Self, SourceError> {
        let shared = Arc::new(Shared::new(&config.topics));
        let consumer = Arc::new(client::consumer(config, &shared)?);
        let discovery = discovery::spawn(config, &consumer, &shared)?;
        Ok(Self {
            consumer,
            shared,
            discovery: Some(discovery),
            delivered: HashMap::new(),
            headers_skipped: 0,
        })
    }

    fn deliver(&mut self, message: &BorrowedMessage<'_>, sink: &mut dyn FnMut(Record<'_>)) {
        let topic = message.topic();
        self.note_delivered(topic, message.partition(), message.offset());
        let headers = borrow_headers(message, &mut self.headers_skipped);
        sink(Record {
            topic,
            partition: message.partition(),
            offset: message.offset(),
            timestamp_ms: message.timestamp().to_millis().unwrap_or(-1),
            key: message.key(),
            value: message.payload(),
            headers,
        });
    }

    fn note_delivered(&mut self, topic: &str, partition: i32, offset: i64) {
        if let Some(next) = self
            .delivered
            .get_mut(topic)
            .and_then(|partitions| partitions.get_mut(&partition))
        {
            *next = offset + 1;
            return;
        }
        self.delivered
            .entry(topic.to_owned())
            .or_default()
            .insert(partition, offset + 1);
    }
}

impl RecordSource for KafkaIngest {
    fn poll(
        &mut self,
        timeout: Duration,
        max: usize,
        sink: &mut dyn FnMut(Record<'_>),
    ) -> Result<usize, SourceError> {
        let consumer = Arc::clone(&self.consumer);
        let deadline = Instant::now() + timeout;
        let mut count = 0;
        while count < max {
            let wait = if count == 0 {
                deadline.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            match consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    self.deliver(&message, sink);
                    count += 1;
                }
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    return Err(SourceError::Fatal {
                        reason: code.to_string(),
                    });
                }
                // Counted by the client context; librdkafka retries by itself.
                Some(Err(_)) if Instant::now() < deadline => {}
                Some(Err(_)) => break,
            }
        }
        Ok(count)
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            headers_skipped: self.headers_skipped,
            ..self.shared.status()
        }
    }

    fn lag(&mut self) -> Vec<PartitionLag> {
        let mut lag = self.shared.lag();
        for entry in &mut lag {
            let delivered = self.delivered.get(&entry.topic);
            if let Some(next) = delivered.and_then(|partitions| partitions.get(&entry.partition)) {
                entry.position = *next;
            }
        }
        lag
    }
}

impl Drop for KafkaIngest {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(discovery) = self.discovery.take() {
            // A panic there was reported by its own thread; nothing is left to do here.
            let _ = discovery.join();
        }
    }
}

pub(crate) fn borrow_headers<'a>(
    message: &'a BorrowedMessage<'_>,
    skipped: &mut u64,
) -> HeaderList<'a> {
    let mut list = HeaderList::new();
    let Some(headers) = message.headers() else {
        return list;
    };
    for index in 0..headers.count() {
        // rdkafka 0.39 unwraps the UTF-8 check of the name, and anyone who may produce chooses
        // that name, so the panic is caught here. Costs nothing when it does not happen.
        match catch_unwind(AssertUnwindSafe(|| headers.try_get(index))) {
            Ok(Some(header)) => list.push((header.key, header.value)),
            Ok(None) => break,
            Err(_) => *skipped += 1,
        }
    }
    list
}
