//! librdkafka consumer that is polled by its user.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::{FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::clock::DriverClock;
use super::deadline::{CommandError, CommandOutcome, Deadline};
use super::session::DriverSession;
use super::token::DriverToken;
use super::values::{PRIMER, number};
use crate::AssignmentMode;

pub(super) struct DriverConsumer {
    client: BaseConsumer<Assigned>,
    topic: String,
    last_error: String,
}

/// Received record that is not a primer.
pub(super) struct ReceivedRecord<'a> {
    message: BorrowedMessage<'a>,
    pub(super) number: Option<i64>,
}

impl ReceivedRecord<'_> {
    pub(super) fn key(&self) -> &[u8] {
        self.message.key().unwrap_or_default()
    }

    pub(super) fn value(&self) -> &[u8] {
        self.message.payload().unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.key().len() + self.value().len()) as u64
    }

    /// Returns `true` if `before` records precede this one, and its value has `len` bytes.
    pub(super) fn is_expected(&self, before: u64, len: u64) -> bool {
        self.number == i64::try_from(before).ok() && self.value().len() as u64 == len
    }
}

pub(super) enum ReadStep<'a> {
    Record(ReceivedRecord<'a>),
    Primer,
    /// No record within the timeout.
    Nothing,
}

impl DriverConsumer {
    /// Creates the client with its own consumer group.
    pub(super) fn start(session: &DriverSession, topic: &str, joins: bool) -> CommandOutcome<Self> {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = format!(
            "weir-driver-{}-{:x}-{number}",
            std::process::id(),
            rand::random::<u64>()
        );
        let settings = session.configured()?;
        let context = Assigned {
            clock: session.clock,
            at_ns: AtomicU64::new(0),
            token: settings.token.of_client(),
        };
        let settings = settings.consumer(&group, joins);
        let client = BaseConsumer::from_config_and_context(&settings, context);
        let client = client.map_err(CommandError::kafka("creating a consumer"))?;
        // There are no records before the subscription; only the token is requested.
        let context: &Assigned = client.context();
        context
            .token
            .hand_over(|timeout| drop(client.poll(timeout)));
        Ok(Self {
            client,
            topic: topic.to_owned(),
            last_error: String::new(),
        })
    }

    /// Subscribes, or assigns partition 0 from offset 0.
    pub(super) fn begin(&self, via: AssignmentMode) -> CommandOutcome<()> {
        match via {
            AssignmentMode::Group => self.subscribe(),
            AssignmentMode::Assign => self.assign(0),
        }
    }

    fn subscribe(&self) -> CommandOutcome<()> {
        let subscribed = self.client.subscribe(&[&self.topic]);
        subscribed.map_err(CommandError::kafka("subscribing"))
    }

    /// Assigns partition 0 from an offset.
    pub(super) fn assign(&self, offset: i64) -> CommandOutcome<()> {
        let mut list = TopicPartitionList::new();
        let added = list.add_partition_offset(&self.topic, 0, Offset::Offset(offset));
        let assigned = added.and_then(|()| self.client.assign(&list));
        assigned.map_err(CommandError::kafka("assigning"))
    }

    pub(super) fn end_offset(&self, timeout: &Deadline<'_>) -> CommandOutcome<i64> {
        let left = timeout.left("requested", (0, 1), "")?;
        let offsets = self.client.fetch_watermarks(&self.topic, 0, left);
        let (_, end) = offsets.map_err(|error| CommandError::topic(&self.topic, error))?;
        Ok(end)
    }

    /// Returns the time of the assignment by the group.
    pub(super) fn assigned_ns(&self) -> u64 {
        self.client.context().at_ns.load(Ordering::Acquire)
    }

    /// Waits for a record. Transient errors are stored for a later message; others end the command.
    pub(super) fn poll(&mut self, timeout: Duration) -> CommandOutcome<ReadStep<'_>> {
        // Only the error leaves this match: a record borrows the client as long as the caller uses
        // it.
        let error = match self.client.poll(timeout) {
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
            return Err(CommandError::topic(&self.topic, error));
        }
        self.last_error = error.to_string();
        Ok(ReadStep::Nothing)
    }

    /// Commits the position and waits for the response.
    pub(super) fn commit(&self) -> CommandOutcome<()> {
        let committed = self.client.commit_consumer_state(CommitMode::Sync);
        committed.map_err(CommandError::kafka("committing"))
    }

    /// Returns the time to wait for a record; an error after the deadline. `got` of `expected`
    /// records were received.
    pub(super) fn check_time(
        &self,
        timeout: &Deadline<'_>,
        got: u64,
        expected: u64,
    ) -> CommandOutcome<Duration> {
        let left = timeout.left("received", (got, expected), &self.last_error)?;
        Ok(left.min(POLL_SLICE))
    }
}

/// Returns `true` if waiting does not help.
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

struct Assigned {
    clock: DriverClock,
    at_ns: AtomicU64,
    token: DriverToken,
}

impl ClientContext for Assigned {
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

/// Maximum wait for a record between checks of the deadline.
const POLL_SLICE: Duration = Duration::from_millis(100);
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
