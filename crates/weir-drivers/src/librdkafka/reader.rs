//! One librdkafka consumer, polled by whoever reads.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::CommandOutcome;
use super::deadline::Deadline;
use super::error::CommandError;
use super::sender::late;
use super::settings::ClientConfigs;
use super::usage::DriverClock;
use super::values::{PRIMER, number};

/// A consumer.
pub(super) struct DriverConsumer {
    client: BaseConsumer<Assigned>,
    topic: String,
    last_error: String,
}

/// A record handed over; primers are none.
pub(super) struct ReceivedRecord<'a> {
    message: BorrowedMessage<'a>,
    /// What its key says.
    pub(super) number: Option<i64>,
}

impl ReceivedRecord<'_> {
    pub(super) fn value(&self) -> &[u8] {
        self.message.payload().unwrap_or_default()
    }

    /// Bytes of key and value.
    pub(super) fn bytes(&self) -> u64 {
        let key = self.message.key().map_or(0, <[u8]>::len);
        (key + self.value().len()) as u64
    }
}

/// What a turn of reading brings.
pub(super) enum ReadStep<'a> {
    Record(ReceivedRecord<'a>),
    Primer,
    /// Nothing within the wait.
    Nothing,
}

impl DriverConsumer {
    /// Makes the client, for a group of its own.
    pub(super) fn start(
        clients: &ClientConfigs,
        topic: &str,
        joins: bool,
        clock: DriverClock,
    ) -> CommandOutcome<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let group = format!(
            "weir-driver-{}-{:x}-{number}",
            std::process::id(),
            rand::random::<u64>()
        );
        let context = Assigned {
            clock,
            at_ns: AtomicU64::new(0),
        };
        let settings = clients.consumer(&group, joins);
        let client = BaseConsumer::from_config_and_context(&settings, context);
        Ok(Self {
            client: client.map_err(CommandError::kafka("making a consumer"))?,
            topic: topic.to_owned(),
            last_error: String::new(),
        })
    }

    pub(super) fn subscribe(&self) -> CommandOutcome<()> {
        let subscribed = self.client.subscribe(&[&self.topic]);
        subscribed.map_err(CommandError::kafka("subscribing"))
    }

    /// Takes partition 0 from an offset on.
    pub(super) fn assign(&self, offset: i64) -> CommandOutcome<()> {
        let mut list = TopicPartitionList::new();
        let added = list.add_partition_offset(&self.topic, 0, Offset::Offset(offset));
        let assigned = added.and_then(|()| self.client.assign(&list));
        assigned.map_err(CommandError::kafka("assigning"))
    }

    /// Where the next record of partition 0 will be.
    pub(super) fn end_offset(&self, timeout: &Deadline<'_>) -> CommandOutcome<i64> {
        let left = timeout
            .left()
            .map_err(|over| late("asked for", 0, 1, over, ""))?;
        let offsets = self.client.fetch_watermarks(&self.topic, 0, left);
        let (_, end) = offsets.map_err(|error| self.refused(&error))?;
        Ok(end)
    }

    /// When the group gave it its partition.
    pub(super) fn assigned_ns(&self) -> u64 {
        self.client.context().at_ns.load(Ordering::Acquire)
    }

    /// Waits for a record. Errors that may pass are kept for later; others end the command.
    pub(super) fn turn(&mut self, wait: Duration) -> CommandOutcome<ReadStep<'_>> {
        // Only to tell what to keep: a record borrows the client for as long as the caller has it.
        let error = match self.client.poll(wait) {
            None => return Ok(ReadStep::Nothing),
            Some(Ok(message)) => {
                let number = number(message.key());
                return Ok(match number {
                    Some(PRIMER) if message.payload_len() == 1 => ReadStep::Primer,
                    number => ReadStep::Record(ReceivedRecord { message, number }),
                });
            }
            Some(Err(error)) => error,
        };
        if is_final(&error) {
            return Err(self.refused(&error));
        }
        self.last_error = error.to_string();
        Ok(ReadStep::Nothing)
    }

    /// Stores what was read; waits for the answer.
    pub(super) fn commit(&self) -> CommandOutcome<()> {
        let committed = self.client.commit_consumer_state(CommitMode::Sync);
        committed.map_err(CommandError::kafka("committing"))
    }

    /// Looks whether there is time; `got` of `wanted` have come.
    pub(super) fn go_on(
        &self,
        timeout: &Deadline<'_>,
        got: u64,
        wanted: u64,
    ) -> CommandOutcome<Duration> {
        let left = timeout.left();
        let left = left.map_err(|over| late("received", got, wanted, over, &self.last_error));
        left.map(|left| left.min(POLL_SLICE))
    }

    fn refused(&self, error: &KafkaError) -> CommandError {
        CommandError::Topic {
            topic: self.topic.clone(),
            reason: error.to_string(),
        }
    }
}

/// Whether waiting does not help.
fn is_final(error: &KafkaError) -> bool {
    match error {
        KafkaError::MessageConsumptionFatal(_) => true,
        KafkaError::MessageConsumption(code) => matches!(
            code,
            RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed
        ),
        _ => false,
    }
}

/// Remembers when the group gave it its partition.
struct Assigned {
    clock: DriverClock,
    at_ns: AtomicU64,
}

impl ClientContext for Assigned {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "librdkafka", %error, "consumer: {reason}");
    }
}

impl ConsumerContext for Assigned {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(_) = rebalance {
            self.at_ns.store(self.clock.now_ns(), Ordering::Release);
        }
    }
}

/// How long a wait for a record may be before time is looked at.
const POLL_SLICE: Duration = Duration::from_millis(100);
static NEXT: AtomicU32 = AtomicU32::new(0);
