//! Reads whole topics by direct assignment, never as a member of a consumer group; a group id only
//! names offsets that are stored, and resumed from, when the caller asks for it.
//!
//! `poll` runs on the caller's thread and only takes records; a small discovery thread asks for
//! metadata and start offsets, so a slow broker answer never delays a record.

mod bounds;
mod client;
mod committer;
mod discovery;
mod identity;
mod moves;
mod offsets;
mod reader;
mod state;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use thiserror::Error;

use crate::properties::PropertyError;
use crate::record::Record;
use client::IngestContext;
use committer::Committer;
use identity::Identities;
use reader::ReadCursor;
use state::IngestState;

pub use offsets::Offsets;
pub(crate) use reader::borrow_headers;
pub use reader::{KafkaReader, LentRecord};

/// Where reading starts in partitions that exist when ingest first sees their topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartFrom {
    /// Behind the newest record: only what is produced once [`SourceStatus::ready`] is certain.
    #[default]
    Latest,
    /// At the oldest record kept.
    Earliest,
}

/// What is not read until [`Reader::go_on`], although its partitions and offsets are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PauseScope {
    /// Everything is read.
    #[default]
    Nothing,
    /// Partitions that resume from a stored offset wait.
    Stored,
    /// All partitions wait.
    All,
}

/// Settings of a [`KafkaIngest`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngestConfig {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Name shown in broker logs and quotas.
    pub client_id: String,
    /// Under which offsets are stored by [`Reader::commit`] and where reading resumes from; no
    /// group is joined. Default: reading never resumes.
    pub group_id: Option<String>,
    /// Topics to read; all their partitions are read.
    pub topics: Vec<String>,
    /// Where to start. Partitions created later are always read from their beginning.
    pub from: StartFrom,
    /// What waits for [`Reader::go_on`] from the beginning.
    pub hold: PauseScope,
    /// Further librdkafka properties; those this client decides are refused.
    pub properties: Vec<(String, String)>,
}

/// Why ingest cannot start or cannot go on. Lost brokers are no error: see [`SourceStatus`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// There is nothing to read.
    #[error("no topic to read: name at least one")]
    NoTopic,
    /// The name can belong to no topic.
    #[error("\"{topic}\" is no topic name: use 1 to 249 letters, digits, '.', '_' or '-'")]
    TopicName {
        /// The name given.
        topic: String,
    },
    /// A property that this client decides.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// librdkafka refused the settings; its message names the property.
    #[error("consumer settings refused: {reason}")]
    Refused {
        /// librdkafka's text.
        reason: String,
    },
    /// The discovery thread could not be started.
    #[error("cannot start the discovery thread: {reason}")]
    Thread {
        /// The operating system's text.
        reason: String,
    },
    /// librdkafka declared the instance unusable.
    #[error("kafka consumer failed for good: {reason}")]
    Fatal {
        /// librdkafka's text.
        reason: String,
    },
}

/// How a source is doing, as far as it knows without asking anyone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceStatus {
    /// Brokers answer, every topic exists and every partition found has a start offset: whatever
    /// is produced from now on will be delivered.
    pub ready: bool,
    /// Reason why it is not ready; when it is, reason why the newest commit failed.
    pub trouble: Option<String>,
    /// One entry per configured topic, in that order.
    pub topics: Vec<TopicStatus>,
    /// Newest error text, kept after recovery.
    pub last_error: Option<String>,
    /// Errors since start.
    pub errors: u64,
    /// Times that a partition did not have a position any more: its topic was created again, cut,
    /// or retention removed records before they were read.
    pub resets: u64,
    /// Commits of offsets that brokers confirmed.
    pub commits: u64,
    /// Commits that failed.
    pub commit_errors: u64,
    /// Header names left out because they are not UTF-8.
    pub headers_skipped: u64,
}

/// One topic of a [`SourceStatus`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicStatus {
    /// Topic name.
    pub topic: String,
    /// Whether the cluster had it when last asked.
    pub exists: bool,
    /// Partitions being read.
    pub partitions: usize,
}

/// How far one partition's reader is behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLag {
    /// Topic name.
    pub topic: String,
    /// Partition of that topic.
    pub partition: i32,
    /// Offset that will be delivered next.
    pub position: i64,
    /// End of the partition as last told by its leader, at most some seconds old; `None` if it has
    /// not answered.
    pub end: Option<i64>,
}

impl PartitionLag {
    /// Records between position and end; `None` if the end is not known yet.
    #[must_use]
    pub fn records(&self) -> Option<u64> {
        let end = self.end?;
        Some(u64::try_from(end.saturating_sub(self.position)).unwrap_or(0))
    }
}

/// A stream of records. Order is kept within a partition.
pub trait RecordSource: Send {
    /// Waits up to `timeout` for a first record, then hands over what is there, at most `max`
    /// records. Tells how many were handed over.
    ///
    /// # Errors
    /// Only when the source can never deliver again.
    fn poll(
        &mut self,
        timeout: Duration,
        max: usize,
        sink: &mut dyn FnMut(Record<'_>),
    ) -> Result<usize, SourceError>;

    /// How the source is doing; asks no broker.
    fn status(&self) -> SourceStatus;

    /// Lag per partition from cached figures; asks no broker.
    fn lag(&mut self) -> Vec<PartitionLag>;
}

/// The librdkafka implementation of [`RecordSource`].
pub struct KafkaIngest {
    consumer: Arc<BaseConsumer<IngestContext>>,
    shared: Arc<IngestState>,
    /// Hands back the topic ids that it knows.
    discovery: Option<JoinHandle<Identities>>,
    committer: Option<Committer>,
    cursor: ReadCursor,
    config: IngestConfig,
}

impl KafkaIngest {
    /// Starts reading in the background; does not wait for a broker.
    ///
    /// # Errors
    /// Settings that can never work.
    pub fn start(config: &IngestConfig) -> Result<Self, SourceError> {
        let shared = Arc::new(IngestState::new(&config.topics, config.hold));
        let identities = Identities::new(&config.client_id);
        Self::with(config, shared, ReadCursor::default(), identities)
    }

    fn with(
        config: &IngestConfig,
        shared: Arc<IngestState>,
        cursor: ReadCursor,
        identities: Identities,
    ) -> Result<Self, SourceError> {
        let consumer = Arc::new(client::consumer(config, &shared)?);
        let committer = match config.group_id {
            Some(_) => Some(Committer::spawn(&consumer, &shared)?),
            None => None,
        };
        let discovery = discovery::spawn(config, &consumer, &shared, identities)?;
        Ok(Self {
            committer,
            consumer,
            shared,
            discovery: Some(discovery),
            cursor,
            config: config.clone(),
        })
    }

    /// Goes on with another client, which knows nothing of topics that were replaced by others of
    /// their name; librdkafka would wait for the leaders of the old ones, or read the new ones from
    /// old positions. Replaced topics are read from their beginnings, others where they were left.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn renew(&mut self) -> Result<(), SourceError> {
        let identities = self.end_discovery();
        let mut cursor = std::mem::take(&mut self.cursor);
        for topic in self.shared.renew(&cursor.next) {
            tracing::warn!(topic, "topic was replaced, reading the new one");
            cursor.next.remove(&topic);
            cursor.stored.remove(&topic);
        }
        let config = self.config.clone();
        let identities = identities.unwrap_or_else(|| Identities::new(&config.client_id));
        *self = Self::with(&config, Arc::clone(&self.shared), cursor, identities)?;
        Ok(())
    }

    fn end_discovery(&mut self) -> Option<Identities> {
        self.shared.stop();
        // A panic there was reported by its own thread; nothing is left to do here.
        self.discovery.take()?.join().ok()
    }

    /// The reading end, whose records outlive the call that reads them.
    pub fn reader(&mut self) -> KafkaReader<'_> {
        KafkaReader {
            consumer: &self.consumer,
            shared: &self.shared,
            committer: self.committer.as_ref(),
            cursor: &mut self.cursor,
        }
    }
}

impl RecordSource for KafkaIngest {
    fn poll(
        &mut self,
        timeout: Duration,
        max: usize,
        sink: &mut dyn FnMut(Record<'_>),
    ) -> Result<usize, SourceError> {
        if self.shared.needs_renewal() {
            self.renew()?;
        }
        let mut records = Vec::new();
        let mut skipped = 0;
        let count = self.reader().poll(timeout, max, &mut records)?;
        for record in &records {
            sink(record.record(&mut skipped));
        }
        drop(records);
        self.cursor.headers_skipped += skipped;
        Ok(count)
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            headers_skipped: self.cursor.headers_skipped,
            ..self.shared.status()
        }
    }

    fn lag(&mut self) -> Vec<PartitionLag> {
        self.reader().lag().0
    }
}

impl Drop for KafkaIngest {
    fn drop(&mut self) {
        if self.discovery.is_some() {
            self.end_discovery();
        }
    }
}
