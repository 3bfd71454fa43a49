//! Reads ranges of offsets, in addition to a reader that is far behind them.

use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use thiserror::Error;
use weir_security::{KafkaSettings, SettingsError};

use crate::ingest::borrow_headers;
use crate::peek::{PeekContext, is_transient};
use crate::properties::{self, PropertyError};
use crate::record::Record;

/// Maximum wait for records before the caller is asked whether it still needs them.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const ISOLATION: &str = "isolation.level";

/// Records of a partition from offset `from` up to, and without, offset `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRange<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Partition of that topic.
    pub partition: i32,
    /// First offset.
    pub from: i64,
    /// Offset after the last one.
    pub to: i64,
}

/// Reason why a range was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum RangeError {
    #[error("partition {partition} of topic \"{topic}\" has no records before offset {first} now")]
    Deleted {
        topic: String,
        partition: i32,
        first: i64,
    },
    #[error("the brokers did not deliver all records before the timeout")]
    Timeout,
    /// The caller needs no more records.
    #[error("reading was stopped")]
    Stopped,
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Property(#[from] PropertyError),
    #[error("{0}")]
    Kafka(String),
}

impl From<KafkaError> for RangeError {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error.to_string())
    }
}

/// A consumer that joins no group and commits nothing. It reads one range at a time.
pub struct RangeReader {
    consumer: BaseConsumer<PeekContext>,
}

impl RangeReader {
    /// Creates a reader, which connects when it reads. Of the properties that concern reading, it
    /// has the isolation level of `kafka`; `connect` has those of connections.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn new(
        kafka: &KafkaSettings,
        connect: &KafkaSettings,
        client_id: &str,
    ) -> Result<Self, RangeError> {
        let mut config = properties::base(connect, client_id)?;
        properties::apply(&mut config, connect, &[])?;
        config
            .set("group.id", client_id)
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("allow.auto.create.topics", "false")
            .set("auto.offset.reset", "error")
            // The end of a partition is reported after this time.
            .set("fetch.wait.max.ms", "20")
            .set("queued.max.messages.kbytes", "8192")
            .set(
                ISOLATION,
                kafka.property(ISOLATION).unwrap_or("read_uncommitted"),
            );
        let context = PeekContext::new(kafka);
        let consumer = BaseConsumer::from_config_and_context(&config, context)?;
        Ok(Self { consumer })
    }

    /// Passes the records of a range to `on_record`, until it returns `false`.
    ///
    /// # Errors
    /// A record is deleted, or the brokers do not respond before the deadline.
    pub fn read(
        &self,
        range: PartitionRange<'_>,
        deadline: Instant,
        on_record: &mut dyn FnMut(&Record<'_>) -> bool,
    ) -> Result<(), RangeError> {
        let PartitionRange {
            topic, partition, ..
        } = range;
        let timeout = deadline.saturating_duration_since(Instant::now());
        let (first, _) = self.consumer.fetch_watermarks(topic, partition, timeout)?;
        let deleted = |first| RangeError::Deleted {
            topic: topic.to_owned(),
            partition,
            first,
        };
        if range.from < first {
            return Err(deleted(first));
        }
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(topic, partition, Offset::Offset(range.from))?;
        self.consumer.assign(&assignment)?;
        let result = self.poll_range(range, deadline, on_record);
        self.consumer.unassign()?;
        match result {
            // Deleted between the two requests.
            Err(RangeError::Deleted { .. }) => Err(deleted(first)),
            other => other,
        }
    }

    fn poll_range(
        &self,
        range: PartitionRange<'_>,
        deadline: Instant,
        on_record: &mut dyn FnMut(&Record<'_>) -> bool,
    ) -> Result<(), RangeError> {
        let is_of_range =
            |topic: &str, partition| topic == range.topic && partition == range.partition;
        loop {
            match self.consumer.poll(POLL_INTERVAL) {
                Some(Ok(message)) if !is_of_range(message.topic(), message.partition()) => {}
                Some(Ok(message)) if message.offset() >= range.to => return Ok(()),
                Some(Ok(message)) => {
                    let record = Record {
                        topic: message.topic(),
                        partition: message.partition(),
                        offset: message.offset(),
                        timestamp_ms: message.timestamp().to_millis().unwrap_or(-1),
                        key: message.key(),
                        value: message.payload(),
                        headers: borrow_headers(&message, &mut 0),
                    };
                    if !on_record(&record) {
                        return Err(RangeError::Stopped);
                    }
                    if record.offset + 1 >= range.to {
                        return Ok(());
                    }
                }
                // The last offsets are not records, such as markers of transactions.
                Some(Err(KafkaError::PartitionEOF(partition))) if partition == range.partition => {
                    return Ok(());
                }
                Some(Err(error))
                    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) =>
                {
                    return Err(RangeError::Deleted {
                        topic: range.topic.to_owned(),
                        partition: range.partition,
                        first: range.from,
                    });
                }
                Some(Err(error)) if is_transient(&error) => {}
                Some(Err(error)) => return Err(error.into()),
                None => {}
            }
            if Instant::now() >= deadline {
                return Err(RangeError::Timeout);
            }
        }
    }
}
