//! `[[message]]` and `[messages]`: which client messages go where, and their limits.

use serde::Deserialize;
use weir_identity::config::{MessageDestination, MessageRule, RawMessage};
use weir_identity::rules::shadowed_messages;
use weir_kafka::{KafkaSettings, librdkafka_security};

use crate::error::InvalidConfig;

/// `[messages]`: limits of client messages.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct MessageLimits {
    /// Maximum number of messages of a session without an outcome; default 100.
    pub pending_per_session: usize,
    /// Maximum number of sequences of a session; default 20.
    pub sequences_per_session: usize,
    /// Maximum bytes of all messages without an outcome; default 16 MiB.
    pub bytes_in_flight: usize,
    /// Time for the acknowledgement of the brokers, in milliseconds; default 10,000.
    pub delivery_timeout_ms: u64,
    /// Maximum wait for missing messages of a sequence, in milliseconds; default 10,000.
    pub max_wait_ms: u64,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            pending_per_session: 100,
            sequences_per_session: 20,
            bytes_in_flight: 16 << 20,
            delivery_timeout_ms: 10_000,
            max_wait_ms: 10_000,
        }
    }
}

impl MessageLimits {
    /// Returns a key with an unusable value.
    fn unusable(&self) -> Option<&'static str> {
        let ranges = [
            (
                "pending_per_session",
                self.pending_per_session as u64,
                1,
                10_000,
            ),
            (
                "sequences_per_session",
                self.sequences_per_session as u64,
                1,
                1_000,
            ),
            (
                "bytes_in_flight",
                self.bytes_in_flight as u64,
                1 << 20,
                1 << 30,
            ),
            (
                "delivery_timeout_ms",
                self.delivery_timeout_ms,
                100,
                300_000,
            ),
            ("max_wait_ms", self.max_wait_ms, 0, 300_000),
        ];
        let mut ranges = ranges.into_iter();
        let found = ranges.find(|(_, value, least, most)| !(least..=most).contains(&value));
        found.map(|(key, ..)| key)
    }
}

/// Checked rules and limits of client messages.
#[derive(Debug, Clone, Default)]
pub struct MessageConfig {
    /// Rules; without any, every message is refused.
    pub rules: Vec<MessageRule>,
    /// Limits.
    pub limits: MessageLimits,
}

impl MessageConfig {
    /// Checks rules and limits. `connections` are names, each with whether it is enabled, and the
    /// settings of its client.
    pub(crate) fn new(
        rules: &[RawMessage],
        limits: MessageLimits,
        connections: &[(&str, bool, &KafkaSettings)],
        has_adapter: bool,
    ) -> Result<Self, InvalidConfig> {
        if let Some(key) = limits.unusable() {
            return Err(InvalidConfig::MessageLimit(key));
        }
        let rules = MessageRule::parse_all(rules)?;
        for rule in &rules {
            let connection = match &rule.destination {
                MessageDestination::Topic { connection, .. } => connection,
                MessageDestination::Adapter if has_adapter => continue,
                MessageDestination::Adapter => {
                    let rule = rule.name.to_string();
                    return Err(InvalidConfig::MessageAdapter { rule });
                }
            };
            let (rule, name) = (rule.name.to_string(), connection.to_string());
            match connections.iter().find(|one| *one.0 == **connection) {
                // The client that reads may support more than the one that writes.
                Some((_, true, kafka)) => match librdkafka_security(&kafka.security) {
                    Ok(_) => {}
                    Err(error) => return Err(InvalidConfig::MessageClient { rule, name, error }),
                },
                Some((_, false, _)) => return Err(InvalidConfig::MessageDisabled { rule, name }),
                None => {
                    let known: Vec<_> = connections.iter().map(|one| one.0).collect();
                    let known = known.join(", ");
                    return Err(InvalidConfig::MessageConnection { rule, name, known });
                }
            }
        }
        Ok(Self { rules, limits })
    }

    /// Returns remarks on rules that never decide.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = String> {
        let shadowed = shadowed_messages(&self.rules).into_iter();
        shadowed.map(|(rule, by)| {
            let (rule, by) = (&rule.name, &by.name);
            format!("message rule \"{rule}\" never applies: \"{by}\" before it covers the same")
        })
    }

    /// Returns the topics of the rules, each with its rule and Kafka connection.
    pub fn topics(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.rules
            .iter()
            .filter_map(|rule| match &rule.destination {
                MessageDestination::Topic {
                    connection, topic, ..
                } => Some((&*rule.name, &**connection, &**topic)),
                MessageDestination::Adapter => None,
            })
    }
}
