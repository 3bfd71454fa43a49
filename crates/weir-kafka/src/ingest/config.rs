//! Configuration of ingest.

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
    /// Partitions that resume from a stored offset are paused.
    Stored,
    /// All partitions are paused.
    All,
}

/// Configuration of [`KafkaIngest`](super::KafkaIngest).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngestConfig {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Name shown in broker logs and quotas.
    pub client_id: String,
    /// Group id under which [`KafkaReader::commit`](super::KafkaReader::commit) stores offsets and
    /// from whose offsets reading resumes. No group is joined. Default: offsets are neither stored
    /// nor used.
    pub group_id: Option<String>,
    /// Topics to read, with all their partitions.
    pub topics: Vec<String>,
    /// Start position. Partitions created later are always read from their beginning.
    pub from: StartFrom,
    /// Partitions that are paused at the start.
    pub pause: PauseScope,
    /// Additional librdkafka properties; those that this client sets itself are rejected.
    pub properties: Vec<(String, String)>,
}
