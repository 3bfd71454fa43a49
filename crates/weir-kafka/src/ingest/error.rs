//! Errors of ingest.

use rdkafka::error::KafkaError;
use thiserror::Error;

use crate::properties::PropertyError;

/// Reason why ingest cannot start or continue. Unavailable brokers are not an error; see
/// [`SourceStatus`](super::SourceStatus).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum SourceError {
    #[error("no topic configured: specify at least one")]
    NoTopic,
    #[error("\"{topic}\" is not a valid topic name: use 1 to 249 letters, digits, '.', '_' or '-'")]
    TopicName { topic: String },
    #[error(transparent)]
    Property(#[from] PropertyError),
    #[error("consumer configuration rejected: {0}")]
    Rejected(#[from] KafkaError),
    #[error("cannot start a background thread: {reason}")]
    Thread { reason: String },
    /// A fatal error of librdkafka: this instance cannot be used any more.
    #[error("fatal Kafka consumer error: {reason}")]
    Fatal { reason: String },
}
