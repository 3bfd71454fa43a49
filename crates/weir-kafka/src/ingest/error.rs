//! Errors of ingest.

use rdkafka::error::KafkaError;
use thiserror::Error;
use weir_sasl::client::UnusableLogin;
use weir_security::SettingsError;

use crate::properties::PropertyError;
use crate::secure::SecurityError;

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
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Property(#[from] PropertyError),
    #[error(
        "property \"{name}\" = \"{value}\": the lean reader does not have it; remove it, or read \
         with librdkafka"
    )]
    NotLean { name: String, value: String },
    #[error("property \"{name}\" = \"{value}\": use {expected}")]
    Value {
        name: String,
        value: String,
        expected: String,
    },
    /// The lean reader cannot use the encryption or the login.
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error("consumer configuration rejected: {0}")]
    Rejected(#[from] KafkaError),
    #[error("cannot start a background thread: {reason}")]
    Thread { reason: String },
    /// A fatal error of librdkafka: this instance cannot be used any more.
    #[error("fatal Kafka consumer error: {reason}")]
    Fatal { reason: String },
}

impl SourceError {
    /// Returns the setting that the lean reader lacks, but not librdkafka, if it is the reason.
    pub(super) fn only_in_librdkafka(&self) -> Option<String> {
        match self {
            Self::NotLean { name, .. } => Some(name.clone()),
            Self::Security(SecurityError::Login(UnusableLogin::Kerberos)) => {
                Some("sasl.mechanism=GSSAPI".to_owned())
            }
            Self::Security(SecurityError::CipherSuites { .. }) => {
                Some("ssl.cipher.suites".to_owned())
            }
            _ => None,
        }
    }
}
