//! Reads whole topics by direct assignment, without joining a consumer group. A group id is only
//! used to store offsets and to resume from them, if the caller asks for it.
//!
//! `poll` runs on the caller's thread and only takes records. A discovery thread requests metadata
//! and start offsets, so a slow response never delays a record.

mod borrowed_record;
mod bounds;
mod client;
mod client_kind;
mod committer;
mod config;
mod discovery;
mod error;
mod identity;
mod lean;
mod librdkafka;
mod moves;
mod offsets;
mod partition_client;
mod pause_partition;
mod reader;
mod state;
mod status;
mod stores;
mod topic_positions;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::record::Record;
use client_kind::ClientKind;
use committer::Committer;
use identity::Identities;
use reader::ReadCursor;
use state::IngestState;

pub use borrowed_record::BorrowedRecord;
pub(crate) use borrowed_record::borrow_headers;
pub use client_kind::SelectedReader;
pub(crate) use config::is_internal;
pub use config::{IngestConfig, PauseScope, ReaderChoice, ReaderKind, StartFrom, TopicPattern};
pub use error::SourceError;
pub use offsets::Offsets;
pub use reader::KafkaReader;
pub use status::{PartitionLag, SourceStatus, TopicStatus};
pub use topic_positions::TopicPositions;

/// A source of records, in order within each partition.
pub struct KafkaIngest {
    client: ClientKind,
    shared: Arc<IngestState>,
    /// Returns the known topic ids when it ends.
    discovery: Option<JoinHandle<Identities>>,
    committer: Option<Committer>,
    cursor: ReadCursor,
    config: IngestConfig,
}

impl KafkaIngest {
    /// Returns the client that reads with a configuration, whose own `reader` is ignored.
    ///
    /// # Errors
    /// [`start`](Self::start) would reject the configuration.
    pub fn select(
        config: &IngestConfig,
        choice: ReaderChoice,
    ) -> Result<SelectedReader, SourceError> {
        SelectedReader::new(config, choice)
    }

    /// Returns the value that the client has for one of librdkafka's properties.
    ///
    /// # Errors
    /// [`start`](Self::start) would reject the configuration, or there is no such property.
    pub fn client_property(config: &IngestConfig, name: &str) -> Result<String, SourceError> {
        let native = client::client_config(config)?.create_native_config()?;
        Ok(native.get(name)?)
    }

    /// Starts to read in the background; does not wait for a broker.
    pub fn start(config: &IngestConfig) -> Result<Self, SourceError> {
        let shared = IngestState::new(&config.topics, config.pause);
        shared.await_list(config.pattern.is_some());
        let shared = Arc::new(shared);
        let identities = Identities::new(&config.kafka, &config.client_id);
        Self::with(config, shared, ReadCursor::default(), identities)
    }

    fn with(
        config: &IngestConfig,
        shared: Arc<IngestState>,
        cursor: ReadCursor,
        identities: Identities,
    ) -> Result<Self, SourceError> {
        let client = ClientKind::new(config, &shared)?;
        let partitions = client.shared_partitions();
        let committer = match config.group_id {
            Some(_) => Some(Committer::spawn(&partitions, &shared)?),
            None => None,
        };
        let discovery = discovery::spawn(config, &partitions, &shared, identities)?;
        Ok(Self {
            committer,
            client,
            shared,
            discovery: Some(discovery),
            cursor,
            config: config.clone(),
        })
    }

    /// Replaces the client after topics were deleted and created again, or stores of
    /// certificates were replaced. The old client would wait for the leaders of the old topics, or
    /// read the new ones from old positions, and it cannot read stores again. Replaced topics are
    /// read from their beginning; the others continue at their positions.
    pub fn renew(&mut self) -> Result<(), SourceError> {
        let identities = self.end_discovery();
        let mut cursor = std::mem::take(&mut self.cursor);
        for topic in self.shared.renew(&cursor.next) {
            tracing::warn!(topic, "topic replaced, reading the new topic");
            cursor.next.remove(&topic);
            cursor.stored.remove(&topic);
        }
        let mut config = self.config.clone();
        let mut identities =
            identities.unwrap_or_else(|| Identities::new(&config.kafka, &config.client_id));
        if let Some(security) = self.shared.take_security() {
            tracing::info!("certificates replaced, connecting with the new ones");
            config.kafka.security = security;
            identities.set_security(&config.kafka.security);
        }
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
            client: &self.client,
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
