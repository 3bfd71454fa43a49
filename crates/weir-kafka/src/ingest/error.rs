//! Errors of ingest.

use thiserror::Error;

use crate::properties::PropertyError;

/// Reason why ingest cannot start or continue. Unavailable brokers are not an error; see
/// [`SourceStatus`](super::SourceStatus).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// No topic is configured.
    #[error("no topic configured: specify at least one")]
    NoTopic,
    /// Invalid topic name.
    #[error("\"{topic}\" is not a valid topic name: use 1 to 249 letters, digits, '.', '_' or '-'")]
    TopicName {
        /// Configured name.
        topic: String,
    },
    /// A property that this client sets itself.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// librdkafka rejected the configuration; its message names the property.
    #[error("consumer configuration rejected: {reason}")]
    Rejected {
        /// Message of librdkafka.
        reason: String,
    },
    /// A background thread could not be started.
    #[error("cannot start a background thread: {reason}")]
    Thread {
        /// Message of the operating system.
        reason: String,
    },
    /// A fatal error of librdkafka: this instance cannot be used any more.
    #[error("fatal Kafka consumer error: {reason}")]
    Fatal {
        /// Message of librdkafka.
        reason: String,
    },
}
