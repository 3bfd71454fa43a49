//! Configuration of ingest.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use strum::Display;
use weir_security::KafkaSettings;

use super::error::SourceError;

/// Start position in partitions that exist when their topic is first looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartFrom {
    /// After the latest record. Complete only for records produced after
    /// [`SourceStatus::ready`](super::SourceStatus::ready) is `true`.
    #[default]
    Latest,
    /// At the oldest record.
    Earliest,
}

/// Partitions that are not read until `KafkaReader` resumes them, although their offsets are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PauseScope {
    /// No partition is paused.
    #[default]
    Nothing,
    /// Partitions that resume from a committed offset are paused.
    Committed,
    /// All partitions are paused.
    All,
}

/// Client that a configuration asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReaderChoice {
    /// Weir's own client, or librdkafka for settings that only librdkafka supports.
    #[default]
    Auto,
    /// librdkafka.
    Librdkafka,
    /// Weir's own client.
    Lean,
}

/// Client that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Display)]
#[strum(serialize_all = "lowercase")]
pub enum ReaderKind {
    /// librdkafka.
    #[default]
    Librdkafka,
    /// Weir's own client. It has no Kerberos login and fewer properties.
    Lean,
}

/// A selection of topics by name.
#[derive(Clone)]
pub struct TopicPattern(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl TopicPattern {
    /// Creates a selection of the topics for which `matches` returns `true`.
    pub fn new(matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(matches))
    }

    /// Returns `true` if the topic is selected and not internal.
    pub(super) fn selects(&self, topic: &str) -> bool {
        !is_internal(topic) && (self.0)(topic)
    }
}

/// Returns `true` for topics that Kafka's consumer leaves out of patterns.
pub(crate) fn is_internal(topic: &str) -> bool {
    INTERNAL_TOPICS.contains(&topic)
}

const INTERNAL_TOPICS: [&str; 3] = [
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
];

impl fmt::Debug for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TopicPattern")
    }
}

impl PartialEq for TopicPattern {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TopicPattern {}

/// Configuration of [`KafkaIngest`](super::KafkaIngest).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestConfig {
    /// Cluster to read from. Properties that this client sets itself are rejected.
    pub kafka: KafkaSettings,
    /// Name shown in broker logs and quotas, unless the cluster's properties have a `client.id`.
    pub client_id: String,
    /// Group id under which [`KafkaReader::commit`](super::KafkaReader::commit) stores offsets and
    /// from whose offsets reading resumes. No group is joined. Default: offsets are neither stored
    /// nor used.
    pub group_id: Option<String>,
    /// Topics to read, with all their partitions.
    pub topics: Vec<String>,
    /// Selection of the topics to read instead of `topics`, which must be empty then. Internal
    /// topics are left out; topics that are created later are read from their beginning.
    pub pattern: Option<TopicPattern>,
    /// Start position. Partitions created later are always read from their beginning.
    pub from: StartFrom,
    /// Partitions that are paused at the start.
    pub pause: PauseScope,
    /// Client that reads.
    pub reader: ReaderKind,
}

/// Returns an error for a missing or invalid topic name.
pub(super) fn check_topics(config: &IngestConfig) -> Result<(), SourceError> {
    if config.pattern.is_some() {
        return Ok(());
    }
    if config.topics.is_empty() {
        return Err(SourceError::NoTopic);
    }
    for topic in &config.topics {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if topic.is_empty() || topic.len() > 249 || !topic.bytes().all(legal) {
            return Err(SourceError::TopicName {
                topic: topic.clone(),
            });
        }
    }
    Ok(())
}

/// Properties that `SourceStatus::ready` and lossless reading depend on.
pub(super) const OWNED: [&str; 8] = [
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "auto.offset.reset",
    "allow.auto.create.topics",
    "statistics.interval.ms",
    "group.id",
];
/// Timeout of a request of the discovery thread. It bounds the time to stop.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

impl Default for IngestConfig {
    fn default() -> Self {
        Self {
            kafka: KafkaSettings::plaintext("localhost:9092"),
            client_id: String::new(),
            group_id: None,
            topics: Vec::new(),
            pattern: None,
            from: StartFrom::default(),
            pause: PauseScope::default(),
            reader: ReaderKind::default(),
        }
    }
}
