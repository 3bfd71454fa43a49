//! One record of a topic, for people who want to look at it.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use thiserror::Error;

use crate::ingest::borrow_headers;
use crate::properties;

/// How far before the end the newest record is looked for at first: behind it may be markers of
/// transactions and gaps, which are no records.
const STEP_BACK: i64 = 10;

/// A record with its own memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Topic name.
    pub topic: String,
    /// Partition of that topic.
    pub partition: i32,
    /// Offset inside the partition.
    pub offset: i64,
    /// Milliseconds since the epoch; -1 where the record carries none.
    pub timestamp_ms: i64,
    /// Serialized key.
    pub key: Option<Vec<u8>>,
    /// Serialized value.
    pub value: Option<Vec<u8>>,
    /// Headers in record order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Which record to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSelector {
    /// The newest of the partition, or of all partitions by time.
    Last,
    /// The first from this offset on.
    Offset(i64),
}

/// Why there is no record to look at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeekError {
    /// The cluster does not have the topic.
    #[error("topic \"{0}\" does not exist on {1}")]
    NoTopic(String, String),
    /// The topic does not have the partition.
    #[error("topic \"{topic}\" has no partition {partition}; it has {count}")]
    NoPartition {
        /// Topic name.
        topic: String,
        /// The partition asked for.
        partition: i32,
        /// How many there are.
        count: usize,
    },
    /// An offset means something inside one partition only.
    #[error("topic \"{topic}\" has {count} partitions: say which one the offset belongs to")]
    WhichPartition {
        /// Topic name.
        topic: String,
        /// How many there are.
        count: usize,
    },
    /// There is nothing to read.
    #[error("no record there: {0}")]
    Nothing(String),
    /// The brokers did not answer, or refused.
    #[error("{0}")]
    Kafka(String),
}

impl From<KafkaError> for PeekError {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error.to_string())
    }
}

/// Reads one record; neither joins a group nor commits anything.
///
/// # Errors
/// The topic, partition or record is not there, or brokers do not answer within `timeout`.
pub fn peek(
    bootstrap_servers: &str,
    topic: &str,
    partition: Option<i32>,
    pick: RecordSelector,
    timeout: Duration,
) -> Result<OwnedRecord, PeekError> {
    let deadline = Instant::now() + timeout;
    let consumer = reader(bootstrap_servers)?;
    let partitions = partitions(&consumer, bootstrap_servers, topic, deadline)?;
    let chosen = choose(partitions, topic, partition, pick)?;
    let mut found: Option<OwnedRecord> = None;
    for partition in chosen {
        let record = match pick {
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
    found.ok_or_else(|| match pick {
        RecordSelector::Last => PeekError::Nothing(format!("topic \"{topic}\" is empty")),
        RecordSelector::Offset(offset) => PeekError::Nothing(format!(
            "topic \"{topic}\" has none from offset {offset} on"
        )),
    })
}

/// The partitions to look into.
pub(crate) fn choose(
    partitions: Vec<i32>,
    topic: &str,
    partition: Option<i32>,
    pick: RecordSelector,
) -> Result<Vec<i32>, PeekError> {
    let (topic, count) = (topic.to_owned(), partitions.len());
    match (partition, pick) {
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

/// Reads the oldest records of a topic, an equal share of each partition, `records` in all and keys and values
/// of `bytes_max` at most; neither joins a group nor commits anything.
///
/// # Errors
/// The topic is not there, or brokers do not answer within `timeout`.
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
    let share = records.div_ceil(partitions.len());
    let (mut found, mut bytes) = (Vec::new(), 0);
    for partition in partitions {
        let (low, high) = consumer.fetch_watermarks(topic, partition, left(deadline))?;
        let mut count = 0;
        if low == high || share == 0 {
            continue;
        }
        read(&consumer, topic, partition, low, deadline, |record| {
            let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
            bytes += length(record.key()) + length(record.payload());
            if bytes <= bytes_max {
                found.push(owned(record));
                count += 1;
            }
            count < share && bytes < bytes_max && record.offset() + 1 < high
        })?;
    }
    found.truncate(records);
    Ok(found)
}

/// A consumer that looks and leaves no trace.
pub(crate) fn reader(bootstrap_servers: &str) -> Result<BaseConsumer, PeekError> {
    let mut settings = properties::base(bootstrap_servers, "weir-peek");
    settings
        .set("group.id", "weir-peek")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("allow.auto.create.topics", "false")
        .set("auto.offset.reset", "error");
    Ok(settings.create()?)
}

pub(crate) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

pub(crate) fn partitions(
    consumer: &BaseConsumer,
    servers: &str,
    topic: &str,
    deadline: Instant,
) -> Result<Vec<i32>, PeekError> {
    let metadata = consumer.fetch_metadata(Some(topic), left(deadline))?;
    let found = metadata.topics().iter().find(|t| t.name() == topic);
    let partitions = found.map_or(&[][..], |t| t.partitions());
    if partitions.is_empty() {
        return Err(PeekError::NoTopic(topic.to_owned(), servers.to_owned()));
    }
    Ok(partitions.iter().map(|partition| partition.id()).collect())
}

/// The newest record of a partition.
fn last(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
    deadline: Instant,
) -> Result<Option<OwnedRecord>, PeekError> {
    let (low, high) = consumer.fetch_watermarks(topic, partition, left(deadline))?;
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

/// The first record of a partition from an offset on.
fn from(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
    offset: i64,
    deadline: Instant,
) -> Result<Option<OwnedRecord>, PeekError> {
    let (low, high) = consumer.fetch_watermarks(topic, partition, left(deadline))?;
    if !(low..high).contains(&offset) {
        let kept = format!(
            "partition {partition} of topic \"{topic}\" holds {low} to {}",
            high - 1
        );
        return Err(PeekError::Nothing(if low == high {
            format!("partition {partition} of topic \"{topic}\" is empty")
        } else {
            format!("offset {offset} is outside what {kept}")
        }));
    }
    let mut found = None;
    read(consumer, topic, partition, offset, deadline, |record| {
        found = Some(owned(record));
        false
    })?;
    Ok(found)
}

/// Hands over records from an offset on until the end of the partition, or until `take` has
/// enough.
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
        let patience = left(deadline);
        match consumer.poll(patience) {
            Some(Ok(record)) if record.partition() != partition => {}
            Some(Ok(record)) if take(&record) => {}
            Some(Ok(_)) | Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
            // Connections come and go; the deadline decides.
            Some(Err(error)) if is_passing(&error) && !patience.is_zero() => {}
            Some(Err(error)) => return Err(error.into()),
            None if patience.is_zero() => {
                let text = "the brokers did not deliver a record in time".to_owned();
                return Err(PeekError::Kafka(text));
            }
            None => {}
        }
    }
}

/// Adds to a failure of the brokers how far reading came.
pub(crate) fn remark(error: PeekError, records: u64) -> PeekError {
    match error {
        PeekError::Kafka(text) => PeekError::Kafka(format!("{text}, after {records} records")),
        other => other,
    }
}

fn is_passing(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::OperationTimedOut
        )
    )
}

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
