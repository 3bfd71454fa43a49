//! The client that a configuration selects.

use std::sync::Arc;

use super::config::{IngestConfig, ReaderKind};
use super::error::SourceError;
use super::lean::LeanClient;
use super::librdkafka::LibrdkafkaClient;
use super::partition_client::PartitionClient;
use super::state::IngestState;

#[derive(Clone)]
pub(super) enum ClientKind {
    Librdkafka(Arc<LibrdkafkaClient>),
    Lean(Arc<LeanClient>),
}

impl ClientKind {
    /// Returns an error if [`new`](Self::new) would reject the configuration.
    pub(super) fn check(config: &IngestConfig) -> Result<(), SourceError> {
        match config.reader {
            ReaderKind::Librdkafka => LibrdkafkaClient::check(config),
            ReaderKind::Lean => LeanClient::check(config),
        }
    }

    pub(super) fn new(
        config: &IngestConfig,
        shared: &Arc<IngestState>,
    ) -> Result<Self, SourceError> {
        Ok(match config.reader {
            ReaderKind::Librdkafka => {
                Self::Librdkafka(Arc::new(LibrdkafkaClient::new(config, shared)?))
            }
            ReaderKind::Lean => Self::Lean(Arc::new(LeanClient::new(config, shared)?)),
        })
    }

    /// Returns the operations that all clients have.
    pub(super) fn partitions(&self) -> &dyn PartitionClient {
        match self {
            Self::Librdkafka(client) => &**client,
            Self::Lean(client) => &**client,
        }
    }

    /// Returns the operations for another thread.
    pub(super) fn shared_partitions(&self) -> Arc<dyn PartitionClient> {
        match self {
            Self::Librdkafka(client) => Arc::clone(client) as _,
            Self::Lean(client) => Arc::clone(client) as _,
        }
    }
}
