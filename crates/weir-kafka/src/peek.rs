//! Reads single records of a topic, for inspection.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use thiserror::Error;

use crate::ingest::borrow_headers;
use crate::properties;

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
pub enum PeekError {
    /// The topic does not exist.
    #[error("topic \"{0}\" does not exist on {1}")]
    NoTopic(String, String),
    /// The topic does not have this partition.
    #[error("topic \"{topic}\" has no partition {partition}; it has {count}")]
    NoPartition {
        /// Topic name.
        topic: String,
        /// Requested partition.
        partition: i32,
        /// Number of partitions.
        count: usize,
    },
    /// An offset was given without a partition, but the topic has several.
    #[error("topic \"{topic}\" has {count} partitions: specify the partition of the offset")]
    WhichPartition {
        /// Topic name.
        topic: String,
        /// Number of partitions.
        count: usize,
    },
    /// There is no such record.
    #[error("no record found: {0}")]
    NoRecord(String),
    /// A broker error, or no response.
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
    bootstrap_servers: &str,
    topic: &str,
    partition: Option<i32>,
    selector: RecordSelector,
    timeout: Duration,
) -> Result<OwnedRecord, PeekError> {
    let deadline = Instant::now() + timeout;
    let consumer = reader(bootstrap_servers)?;
    let partitions = partitions(&consumer, bootstrap_servers, topic, deadline)?;
    let chosen = select_partitions(partitions, topic, partition, selector)?;
    let mut found: Option<OwnedRecord> = None;
    for partition in chosen {
        let record = match selector {
            RecordSelector::Last => last(&consumer, topic, partition, deadline)?,
            RecordSelector::Offset(offset) => from(&consumer, topic, partition, offset, deadline)?,
        };
        let newest = found
            .as_ref()
            .map_or(i64::MIN, |record| record.timestamp_ms);
        if let Some(record) = record.filter(|record| record.timestamp_ms >= newest) {
            found = Some(record);
        }
    }
    found.ok_or_else(|| match selector {
        RecordSelector::Last => PeekError::NoRecord(format!("topic \"{topic}\" is empty")),
        RecordSelector::Offset(offset) => PeekError::NoRecord(format!(
            "topic \"{topic}\" has no record at or after offset {offset}"
        )),
    })
}

/// Returns the partitions to read.
pub(crate) fn select_partitions(
    partitions: Vec<i32>,
    topic: &str,
    partition: Option<i32>,
    selector: RecordSelector,
) -> Result<Vec<i32>, PeekError> {
    let (topic, count) = (topic.to_owned(), partitions.len());
    match (partition, selector) {
        (Some(partition), _) if partitions.contains(&partition) => Ok(vec![partition]),
        (Some(partition), _) => Err(PeekError::NoPartition {
            topic,
            partition,
            count,
        }),
        (None, RecordSelector::Offset(_)) if count > 1 => {
            Err(PeekError::WhichPartition { topic, count })
        }
        (None, _) => Ok(partitions),
    }
}

/// Reads the oldest records of a topic: up to `records` in total, an equal number per partition,
/// with at most `bytes_max` bytes of keys and values. Joins no group and commits nothing.
///
/// # Errors
/// The topic does not exist, or brokers do not respond within `timeout`.
pub fn sample(
    bootstrap_servers: &str,
    topic: &str,
    records: usize,
    bytes_max: usize,
    timeout: Duration,
) -> Result<Vec<OwnedRecord>, PeekError> {
    let deadline = Instant::now() + timeout;
    let consumer = reader(bootstrap_servers)?;
    let partitions = partitions(&consumer, bootstrap_servers, topic, deadline)?;
    let records_per_partition = records.div_ceil(partitions.len());
    let (mut found, mut bytes) = (Vec::new(), 0);
    for partition in partitions {
        let (low, high) = consumer.fetch_watermarks(topic, partition, time_left(deadline))?;
        let mut count = 0;
        if low == high || records_per_partition == 0 {
            continue;
        }
        read(&consumer, topic, partition, low, deadline, |record| {
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

/// Creates a consumer that joins no group, commits nothing and creates no topics.
pub(crate) fn reader(bootstrap_servers: &str) -> Result<BaseConsumer, PeekError> {
    let mut client_config = properties::base(bootstrap_servers, "weir-peek");
    client_config
        .set("group.id", "weir-peek")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("allow.auto.create.topics", "false")
        .set("auto.offset.reset", "error");
    Ok(client_config.create()?)
}

/// Returns the time until `deadline`, or zero after it.
pub(crate) fn time_left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Returns the partitions of a topic.
pub(crate) fn partitions(
    consumer: &BaseConsumer,
    servers: &str,
    topic: &str,
    deadline: Instant,
) -> Result<Vec<i32>, PeekError> {
    let metadata = consumer.fetch_metadata(Some(topic), time_left(deadline))?;
    let found = metadata.topics().iter().find(|t| t.name() == topic);
    let partitions = found.map_or(&[][..], |t| t.partitions());
    if partitions.is_empty() {
        return Err(PeekError::NoTopic(topic.to_owned(), servers.to_owned()));
    }
    Ok(partitions.iter().map(|partition| partition.id()).collect())
}

/// Returns the latest record of a partition.
fn last(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
    deadline: Instant,
) -> Result<Option<OwnedRecord>, PeekError> {
    let (low, high) = consumer.fetch_watermarks(topic, partition, time_left(deadline))?;
    let (mut start, mut step) = (high, STEP_BACK);
    while start > low {
        start = high.saturating_sub(step).max(low);
        step = step.saturating_mul(100);
        let mut newest = None;
        read(consumer, topic, partition, start, deadline, |record| {
            newest = Some(record.offset());
            record.offset() + 1 < high
        })?;
        if let Some(offset) = newest {
            return from(consumer, topic, partition, offset, deadline);
        }
    }
    Ok(None)
}

/// Returns the first record of a partition at or after an offset.
fn from(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
    offset: i64,
    deadline: Instant,
) -> Result<Option<OwnedRecord>, PeekError> {
    let (low, high) = consumer.fetch_watermarks(topic, partition, time_left(deadline))?;
    if !(low..high).contains(&offset) {
        let available = format!(
            "partition {partition} of topic \"{topic}\" has offsets {low} to {}",
            high - 1
        );
        return Err(PeekError::NoRecord(if low == high {
            format!("partition {partition} of topic \"{topic}\" is empty")
        } else {
            format!("offset {offset} is out of range: {available}")
        }));
    }
    let mut found = None;
    read(consumer, topic, partition, offset, deadline, |record| {
        found = Some(owned(record));
        false
    })?;
    Ok(found)
}

/// Passes the records from an offset on to `take`, until it returns `false` or the partition ends.
pub(crate) fn read(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
    offset: i64,
    deadline: Instant,
    mut take: impl FnMut(&BorrowedMessage<'_>) -> bool,
) -> Result<(), PeekError> {
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    consumer.assign(&assignment)?;
    loop {
        let timeout = time_left(deadline);
        match consumer.poll(timeout) {
            Some(Ok(record)) if record.partition() != partition => {}
            Some(Ok(record)) if take(&record) => {}
            Some(Ok(_)) | Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
            // Connections may fail and be restored; the deadline decides.
            Some(Err(error)) if is_transient(&error) && !timeout.is_zero() => {}
            Some(Err(error)) => return Err(error.into()),
            None if timeout.is_zero() => {
                let text = "the brokers did not deliver a record before the timeout".to_owned();
                return Err(PeekError::Kafka(text));
            }
            None => {}
        }
    }
}

/// Adds the number of records read to a broker error.
pub(crate) fn with_read_count(error: PeekError, records: u64) -> PeekError {
    match error {
        PeekError::Kafka(text) => PeekError::Kafka(format!("{text}, after {records} records")),
        other => other,
    }
}

/// Returns `true` for connection errors, after which librdkafka retries.
fn is_transient(error: &KafkaError) -> bool {
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
