//! Reads single records of a topic, for inspection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};
use thiserror::Error;
use weir_security::{KafkaSettings, Security, SettingsError};

use crate::connect_error::ConnectError;
use crate::ingest::{borrow_headers, is_internal};
use crate::properties::{self, PropertyError};
use crate::refusals::Refusals;

/// Initial distance before the end at which the latest record is searched. Transaction markers and
/// gaps at the end are not records.
const STEP_BACK: i64 = 10;

/// A record that owns its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Topic name.
    pub topic: String,
    /// Partition of that topic.
    pub partition: i32,
    /// Offset inside the partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch; -1 if the record has no timestamp.
    pub timestamp_ms: i64,
    /// Serialized key.
    pub key: Option<Vec<u8>>,
    /// Serialized value.
    pub value: Option<Vec<u8>>,
    /// Headers in record order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Selection of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSelector {
    /// The latest record of the partition; of several partitions, the one with the latest
    /// timestamp.
    Last,
    /// The first record at or after this offset.
    Offset(i64),
}

/// Reason why no record was read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum PeekError {
    #[error("topic \"{0}\" does not exist on {1}")]
    NoTopic(String, String),
    #[error("topic \"{topic}\" has no partition {partition}; it has {count}")]
    NoPartition {
        topic: String,
        partition: i32,
        count: usize,
    },
    /// An offset was given without a partition, but the topic has several.
    #[error("topic \"{topic}\" has {count} partitions: specify the partition of the offset")]
    WhichPartition { topic: String, count: usize },
    #[error("no record found: {0}")]
    NoRecord(String),
    /// A broker rejected the login, or its certificate was rejected.
    #[error(transparent)]
    Refused(#[from] ConnectError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Property(#[from] PropertyError),
    #[error("{0}")]
    Kafka(String),
}

impl From<KafkaError> for PeekError {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error.to_string())
    }
}

/// Reads one record. Joins no group and commits nothing.
///
/// # Errors
/// The topic, partition or record does not exist, or brokers do not respond within `timeout`.
pub fn peek(
    kafka: &KafkaSettings,
    topic: &str,
    partition: Option<i32>,
    selector: RecordSelector,
    timeout: Duration,
) -> Result<OwnedRecord, PeekError> {
    let reader = TopicReader::open(kafka, topic, timeout)?;
    let mut found: Option<OwnedRecord> = None;
    for partition in reader.select(partition, selector)? {
        let record = match selector {
            RecordSelector::Last => reader.last(partition)?,
            RecordSelector::Offset(offset) => reader.first_from(partition, offset)?,
        };
        let time = |record: &OwnedRecord| record.timestamp_ms;
        let newest = found.as_ref().map_or(i64::MIN, time);
        found = record.filter(|record| time(record) >= newest).or(found);
    }
    found.ok_or_else(|| match selector {
        RecordSelector::Last => PeekError::NoRecord(format!("topic \"{topic}\" is empty")),
        RecordSelector::Offset(offset) => PeekError::NoRecord(format!(
            "topic \"{topic}\" has no record at or after offset {offset}"
        )),
    })
}

/// Reads the oldest records of a topic: up to `records` in total, an equal number per partition,
/// with at most `bytes_max` bytes of keys and values. Joins no group and commits nothing.
///
/// # Errors
/// The topic does not exist, or brokers do not respond within `timeout`.
pub fn sample(
    kafka: &KafkaSettings,
    topic: &str,
    records: usize,
    bytes_max: usize,
    timeout: Duration,
) -> Result<Vec<OwnedRecord>, PeekError> {
    let reader = TopicReader::open(kafka, topic, timeout)?;
    let records_per_partition = records.div_ceil(reader.partitions.len());
    let (mut found, mut bytes) = (Vec::new(), 0);
    for partition in &reader.partitions {
        let (low, high) = reader.watermarks(*partition)?;
        let mut count = 0;
        if low == high || records_per_partition == 0 {
            continue;
        }
        reader.read(*partition, low, |record| {
            let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
            bytes += length(record.key()) + length(record.payload());
            if bytes <= bytes_max {
                found.push(owned(record));
                count += 1;
            }
            count < records_per_partition && bytes < bytes_max && record.offset() + 1 < high
        })?;
    }
    found.truncate(records);
    Ok(found)
}

/// Returns the names of all topics in ascending order, without internal ones. Joins no group.
///
/// # Errors
/// Brokers refuse the connection, or do not respond within `timeout`.
pub fn list_topics(kafka: &KafkaSettings, timeout: Duration) -> Result<Vec<String>, PeekError> {
    let metadata = TopicReader::connect(kafka, "", timeout)?.metadata(None)?;
    let names = metadata.topics().iter().map(MetadataTopic::name);
    let mut names: Vec<_> = names
        .filter(|name| !is_internal(name))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// A consumer of one topic that joins no group, commits nothing and creates no topics. All calls
/// together end at the deadline.
pub(crate) struct TopicReader<'a> {
    consumer: BaseConsumer<PeekContext>,
    topic: &'a str,
    deadline: Instant,
    partitions: Vec<i32>,
}

impl<'a> TopicReader<'a> {
    pub(crate) fn open(
        kafka: &KafkaSettings,
        topic: &'a str,
        timeout: Duration,
    ) -> Result<Self, PeekError> {
        let mut reader = Self::connect(kafka, topic, timeout)?;
        let metadata = reader.metadata(Some(topic))?;
        let found = metadata.topics().iter().find(|t| t.name() == topic);
        let found = found.map_or(&[][..], |t| t.partitions());
        if found.is_empty() {
            let (topic, servers) = (topic.to_owned(), kafka.bootstrap_servers.clone());
            return Err(PeekError::NoTopic(topic, servers));
        }
        reader.partitions = found.iter().map(|partition| partition.id()).collect();
        Ok(reader)
    }

    /// Creates a reader that knows no partitions.
    fn connect(
        kafka: &KafkaSettings,
        topic: &'a str,
        timeout: Duration,
    ) -> Result<Self, PeekError> {
        let mut client_config = properties::base(kafka, "weir-peek")?;
        client_config
            .set("group.id", "weir-peek")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("allow.auto.create.topics", "false")
            .set("auto.offset.reset", "error")
            // As in the gateway.
            .set("isolation.level", "read_uncommitted");
        properties::apply(&mut client_config, kafka, &OWNED)?;
        let context = PeekContext::new(kafka);
        Ok(Self {
            consumer: BaseConsumer::from_config_and_context(&client_config, context)?,
            topic,
            deadline: Instant::now() + timeout,
            partitions: Vec::new(),
        })
    }

    /// Requests metadata of a topic, or of all, in short steps, because a refused connection is
    /// reported only to `poll`, and librdkafka would retry until the timeout.
    fn metadata(&self, topic: Option<&str>) -> Result<Metadata, PeekError> {
        loop {
            self.serve()?;
            let step = self.time_left().min(METADATA_STEP);
            match self.consumer.fetch_metadata(topic, step) {
                Ok(metadata) => return Ok(metadata),
                Err(error) if self.time_left().is_zero() => {
                    self.serve()?;
                    let likely = self.consumer.context().refusals.likely();
                    return Err(likely.map_or_else(|| error.into(), PeekError::from));
                }
                Err(_) => {}
            }
        }
    }

    /// Serves callbacks of librdkafka. There are no records, because nothing is assigned.
    fn serve(&self) -> Result<(), PeekError> {
        while self.consumer.poll(CALLBACK_STEP).is_some() {}
        match self.consumer.context().refusals.latest() {
            Some(refusal) => Err(refusal.into()),
            None => Ok(()),
        }
    }

    pub(crate) fn select(
        &self,
        partition: Option<i32>,
        selector: RecordSelector,
    ) -> Result<Vec<i32>, PeekError> {
        let (topic, count) = (self.topic.to_owned(), self.partitions.len());
        match (partition, selector) {
            (Some(partition), _) if self.partitions.contains(&partition) => Ok(vec![partition]),
            (Some(partition), _) => Err(PeekError::NoPartition {
                topic,
                partition,
                count,
            }),
            (None, RecordSelector::Offset(_)) if count > 1 => {
                Err(PeekError::WhichPartition { topic, count })
            }
            (None, _) => Ok(self.partitions.clone()),
        }
    }

    /// Returns the first offset and the end offset of a partition.
    pub(crate) fn watermarks(&self, partition: i32) -> Result<(i64, i64), PeekError> {
        let timeout = self.time_left();
        Ok(self
            .consumer
            .fetch_watermarks(self.topic, partition, timeout)?)
    }

    /// Returns the time until the deadline, or zero after it.
    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns the latest record of a partition.
    fn last(&self, partition: i32) -> Result<Option<OwnedRecord>, PeekError> {
        let (low, high) = self.watermarks(partition)?;
        let (mut start, mut step) = (high, STEP_BACK);
        while start > low {
            start = high.saturating_sub(step).max(low);
            step = step.saturating_mul(100);
            let mut newest = None;
            self.read(partition, start, |record| {
                newest = Some(record.offset());
                record.offset() + 1 < high
            })?;
            if let Some(offset) = newest {
                return self.first_from(partition, offset);
            }
        }
        Ok(None)
    }

    /// Returns the first record of a partition at or after an offset.
    fn first_from(&self, partition: i32, offset: i64) -> Result<Option<OwnedRecord>, PeekError> {
        let (low, high) = self.watermarks(partition)?;
        let place = format!("partition {partition} of topic \"{}\"", self.topic);
        if low == high {
            return Err(PeekError::NoRecord(format!("{place} is empty")));
        }
        if !(low..high).contains(&offset) {
            return Err(PeekError::NoRecord(format!(
                "offset {offset} is out of range: {place} has offsets {low} to {}",
                high - 1
            )));
        }
        let mut found = None;
        self.read(partition, offset, |record| {
            found = Some(owned(record));
            false
        })?;
        Ok(found)
    }

    /// Passes the records from an offset on to `take`, until it returns `false` or the partition
    /// ends.
    pub(crate) fn read(
        &self,
        partition: i32,
        offset: i64,
        mut take: impl FnMut(&BorrowedMessage<'_>) -> bool,
    ) -> Result<(), PeekError> {
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(self.topic, partition, Offset::Offset(offset))?;
        self.consumer.assign(&assignment)?;
        loop {
            let timeout = self.time_left();
            match self.consumer.poll(timeout) {
                Some(Ok(record)) if record.partition() != partition => {}
                Some(Ok(record)) if take(&record) => {}
                Some(Ok(_)) | Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
                // Connections may fail and be restored; the deadline decides.
                Some(Err(error)) if is_transient(&error) && !timeout.is_zero() => {}
                Some(Err(error)) => return Err(error.into()),
                None if timeout.is_zero() => {
                    let text = "the brokers did not deliver a record before the timeout";
                    return Err(PeekError::Kafka(text.to_owned()));
                }
                None => {}
            }
        }
    }

    /// Returns the consumer with all partitions assigned, from their first records on.
    pub(crate) fn assign_all(&self) -> Result<&BaseConsumer<PeekContext>, PeekError> {
        let mut assignment = TopicPartitionList::new();
        for partition in &self.partitions {
            assignment.add_partition_offset(self.topic, *partition, Offset::Beginning)?;
        }
        self.consumer.assign(&assignment)?;
        Ok(&self.consumer)
    }

    /// Returns the partitions of the topic.
    pub(crate) fn partitions(&self) -> &[i32] {
        &self.partitions
    }
}

/// Receiver of librdkafka's logs and errors.
pub(crate) struct PeekContext {
    refusals: Refusals,
    security: Arc<Security>,
}

impl PeekContext {
    pub(crate) fn new(kafka: &KafkaSettings) -> Self {
        Self {
            refusals: Refusals::new(kafka),
            security: Arc::clone(&kafka.security),
        }
    }
}

impl ClientContext for PeekContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.refusals.note_log(facility, message);
        properties::log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.refusals.note(&error, reason);
        tracing::debug!(target: "librdkafka", %error, reason, "consumer error");
    }

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        properties::oauth_token(&self.security)
    }
}

impl ConsumerContext for PeekContext {}

/// Properties that reading single records depends on.
const OWNED: [&str; 6] = [
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.partition.eof",
    "auto.offset.reset",
    "allow.auto.create.topics",
    "group.id",
];
const METADATA_STEP: Duration = Duration::from_millis(250);
const CALLBACK_STEP: Duration = Duration::from_millis(1);

/// Returns `true` for connection errors, after which librdkafka retries.
pub(crate) fn is_transient(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::OperationTimedOut
        )
    )
}

/// Copies a record.
pub(crate) fn owned(record: &BorrowedMessage<'_>) -> OwnedRecord {
    let headers = borrow_headers(record, &mut 0);
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec)));
    OwnedRecord {
        topic: record.topic().to_owned(),
        partition: record.partition(),
        offset: record.offset(),
        timestamp_ms: record.timestamp().to_millis().unwrap_or(-1),
        key: record.key().map(<[u8]>::to_vec),
        value: record.payload().map(<[u8]>::to_vec),
        headers: headers.collect(),
    }
}
