//! Reads whole topics by direct assignment, without joining a consumer group. A group id is only
//! used to store offsets and to resume from them, if the caller asks for it.
//!
//! `poll` runs on the caller's thread and only takes records. A discovery thread requests metadata
//! and start offsets, so a slow response never delays a record.

mod bounds;
mod client;
mod committer;
mod config;
mod discovery;
mod error;
mod identity;
mod moves;
mod offsets;
mod reader;
mod state;
mod status;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;

use crate::record::Record;
use client::IngestContext;
use committer::Committer;
use identity::Identities;
use reader::ReadCursor;
use state::IngestState;

pub use config::{IngestConfig, PauseScope, StartFrom};
pub use error::SourceError;
pub use offsets::Offsets;
pub(crate) use reader::borrow_headers;
pub use reader::{KafkaReader, LentRecord};
pub use status::{PartitionLag, SourceStatus, TopicStatus};

/// A source of records, in order within each partition.
pub struct KafkaIngest {
    consumer: Arc<BaseConsumer<IngestContext>>,
    shared: Arc<IngestState>,
    /// Returns the known topic ids when it ends.
    discovery: Option<JoinHandle<Identities>>,
    committer: Option<Committer>,
    cursor: ReadCursor,
    config: IngestConfig,
}

impl KafkaIngest {
    /// Starts to read in the background; does not wait for a broker.
    pub fn start(config: &IngestConfig) -> Result<Self, SourceError> {
        let shared = Arc::new(IngestState::new(&config.topics, config.pause));
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

    /// Replaces the librdkafka client after topics were deleted and created again. The old client
    /// would wait for the leaders of the old topics, or read the new ones from old positions.
    /// Replaced topics are read from their beginning; the others continue at their positions.
    pub fn renew(&mut self) -> Result<(), SourceError> {
        let identities = self.end_discovery();
        let mut cursor = std::mem::take(&mut self.cursor);
        for topic in self.shared.renew(&cursor.next) {
            tracing::warn!(topic, "topic replaced, reading the new topic");
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
        // A panic there was already reported; there is nothing to handle.
        self.discovery.take()?.join().ok()
    }

    /// Returns the reader. Its records may outlive the call that polled them.
    pub fn reader(&mut self) -> KafkaReader<'_> {
        KafkaReader {
            consumer: &self.consumer,
            shared: &self.shared,
            committer: self.committer.as_ref(),
            cursor: &mut self.cursor,
        }
    }

    /// Waits up to `timeout` for a first record, then passes the available records, at most `max`,
    /// to `sink`. Returns their number.
    ///
    /// # Errors
    /// Only if the source can never deliver records again.
    pub fn poll(
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

    /// Returns the current status without a request to a broker.
    pub fn status(&self) -> SourceStatus {
        SourceStatus {
            headers_skipped: self.cursor.headers_skipped,
            ..self.shared.status()
        }
    }

    /// Returns the lag of each partition from cached values, without a request to a broker.
    pub fn lag(&mut self) -> Vec<PartitionLag> {
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
