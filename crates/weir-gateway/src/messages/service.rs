//! Rules of client messages with their queues, limits and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use weir_identity::config::{MessageDestination, MessageKey, MessageRule};
use weir_identity::rules::{MessageGrant, MessageRights};
use weir_identity::{Claims, UserIdentity};
use weir_kafka::DeliveryError;
use weir_mapping::ConnectionConfig;

use super::config::{MessageConfig, MessageLimits};
use super::counters::{MessageOutcome, RuleCounters};
use super::in_flight::{InFlight, InFlightTotals};
use super::results::{MessageResult, ResultInbox};
use super::user_rates::UserRates;
use crate::latency::DeliveryAges;

/// Rules of client messages and what all event loops share.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) limits: MessageLimits,
    pub(crate) rules: Vec<MessageRule>,
    /// In the order of the rules.
    targets: Vec<MessageTarget>,
    in_flight: Arc<InFlightTotals>,
    inboxes: Vec<ResultInbox>,
    /// Time until the outcome, by event loop.
    ages: Vec<DeliveryAges>,
    /// Missing messages that were skipped.
    skipped: AtomicU64,
    anonymous: Arc<MessageRights>,
}

/// Where the messages of a rule go.
#[derive(Debug)]
struct MessageTarget {
    /// Topic, and the queue of its connection; `None` for the adapter.
    topic: Option<(Arc<str>, Sender<OutgoingMessage>)>,
    users: UserRates,
    counters: RuleCounters,
}

/// Messages of one Kafka connection that are to be written.
#[derive(Debug)]
pub(crate) struct MessageQueue {
    pub(super) connection: usize,
    pub(crate) receiver: Receiver<OutgoingMessage>,
}

/// Client of a message.
#[derive(Debug)]
pub(crate) struct MessageSender {
    pub(crate) rights: Arc<MessageRights>,
    /// Public name of the session, which is not its ID.
    pub(crate) handle: Box<str>,
}

/// A message on its way to Kafka.
#[derive(Debug)]
pub(crate) struct OutgoingMessage {
    pub(crate) topic: Arc<str>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) text: Box<str>,
    pub(crate) sender: Arc<MessageSender>,
    pub(crate) sequence: Option<Box<str>>,
    pub(crate) prog: Option<u32>,
    /// Number of the event loop in the high half, index of the message there in the low half.
    pub(crate) token: u64,
}

/// A message as its event loop passes it on.
#[derive(Debug)]
pub(crate) struct MessageParts<'a> {
    pub(crate) text: Box<str>,
    pub(crate) sender: &'a Arc<MessageSender>,
    pub(crate) grant: &'a MessageGrant,
    pub(crate) sequence: Option<&'a str>,
    pub(crate) prog: Option<u32>,
}

impl Messages {
    /// Prepares rules and queues; `None` without rules.
    pub(crate) fn new(
        config: MessageConfig,
        connections: &[ConnectionConfig],
        event_loops: usize,
    ) -> Option<(Arc<Self>, Vec<MessageQueue>)> {
        if config.rules.is_empty() {
            return None;
        }
        let mut queues: Vec<(MessageQueue, Sender<OutgoingMessage>)> = Vec::new();
        let mut topic = |rule: &MessageRule| {
            let MessageDestination::Topic {
                connection, topic, ..
            } = &rule.destination
            else {
                return None;
            };
            let index = connections.iter().position(|one| *one.name == **connection);
            let connection = index.unwrap_or_default();
            let known = queues.iter().find(|(one, _)| one.connection == connection);
            let queue = known.map(|(_, sender)| sender.clone());
            let queue = queue.unwrap_or_else(|| {
                let (sender, receiver) = crossbeam_channel::unbounded();
                let queue = MessageQueue {
                    connection,
                    receiver,
                };
                queues.push((queue, sender.clone()));
                sender
            });
            Some((Arc::from(&**topic), queue))
        };
        let mut target = |rule: &MessageRule| MessageTarget {
            topic: topic(rule),
            users: UserRates::default(),
            counters: RuleCounters::default(),
        };
        let targets = config.rules.iter().map(&mut target).collect();
        let identity = UserIdentity::anonymous();
        let mut claims = Claims::default();
        claims.set_identity(&identity);
        let anonymous = MessageRights::compile(&config.rules, &claims, &identity);
        let messages = Self {
            limits: config.limits,
            rules: config.rules,
            targets,
            in_flight: Arc::default(),
            inboxes: (0..event_loops).map(|_| ResultInbox::default()).collect(),
            ages: (0..event_loops).map(|_| DeliveryAges::new()).collect(),
            skipped: AtomicU64::new(0),
            anonymous: Arc::new(anonymous),
        };
        let queues = queues.into_iter().map(|(queue, _)| queue);
        Some((Arc::new(messages), queues.collect()))
    }

    /// Returns the rights of clients without an identity.
    pub(crate) fn anonymous(&self) -> &Arc<MessageRights> {
        &self.anonymous
    }

    /// Claims memory for a message until its outcome; `None` if there is not enough.
    pub(crate) fn claim(&self, text_bytes: usize) -> Option<InFlight> {
        self.in_flight.add(text_bytes, self.limits.bytes_in_flight)
    }

    /// Takes one message of a user; returns `false` if the rule's rate is exceeded.
    pub(crate) fn take_user(
        &self,
        grant: &MessageGrant,
        rights: &MessageRights,
        now_ms: u64,
    ) -> bool {
        let rate = self.rules[grant.rule].user_rate;
        let users = &self.targets[grant.rule].users;
        rate.is_none_or(|rate| users.take(&rights.issuer, &rights.user, rate as f32, now_ms))
    }

    /// Queues a message of event loop `shard` for its topic. Returns `false` if the gateway stops.
    pub(crate) fn send(&self, message: MessageParts<'_>, shard: u16, index: usize) -> bool {
        let MessageParts {
            text,
            sender,
            grant,
            sequence,
            prog,
        } = message;
        let target = &self.targets[grant.rule];
        let Some((topic, queue)) = &target.topic else {
            return false;
        };
        let message = OutgoingMessage {
            topic: Arc::clone(topic),
            key: match &self.rules[grant.rule].destination {
                MessageDestination::Topic {
                    key: MessageKey::Sequence,
                    ..
                } => sequence.map(Arc::from),
                _ => grant.key.clone(),
            },
            text,
            sender: Arc::clone(sender),
            sequence: sequence.map(Into::into),
            prog,
            token: u64::from(shard) << 32 | index as u64,
        };
        queue.send(message).is_ok()
    }

    /// Stores a result for its event loop, and returns the number of that.
    pub(crate) fn put_result(&self, token: u64, result: Result<(), DeliveryError>) -> usize {
        let (shard, index) = ((token >> 32) as usize, token as u32 as usize);
        if let Some(inbox) = self.inboxes.get(shard) {
            inbox.push(MessageResult { index, result });
        }
        shard
    }

    /// Returns the results for an event loop since the last call.
    pub(crate) fn take_results(&self, shard: u16) -> Vec<MessageResult> {
        let inbox = self.inboxes.get(usize::from(shard));
        inbox.map_or_else(Vec::new, ResultInbox::take)
    }

    /// Counts the outcome of a message that a rule covers.
    pub(crate) fn count(&self, rule: usize, outcome: MessageOutcome) {
        self.targets[rule].counters.add(outcome);
    }

    /// Counts the time until the outcome of a message; called by its event loop only.
    pub(crate) fn count_age(&self, shard: u16, age_ms: u64) {
        if let Some(ages) = self.ages.get(usize::from(shard)) {
            ages.record(age_ms, 1);
        }
    }

    pub(crate) fn count_skipped(&self, count: u32) {
        self.skipped.fetch_add(count.into(), Ordering::Relaxed);
    }
}

/// Values of the metrics.
impl Messages {
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&str, &RuleCounters)> {
        let rules = self.rules.iter().zip(&self.targets);
        rules.map(|(rule, target)| (&*rule.name, &target.counters))
    }

    pub(crate) fn ages(&self) -> &[DeliveryAges] {
        &self.ages
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub(crate) fn pending(&self) -> u64 {
        self.in_flight.messages() as u64
    }

    pub(crate) fn pending_bytes(&self) -> u64 {
        self.in_flight.bytes() as u64
    }
}
