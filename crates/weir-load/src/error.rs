//! Errors of producers, consumers and the baseline server, by class.

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_kafka::lean::LeanError;
use weir_kafka::registry::RegistryError;
use weir_kafka::{AdminError, ProducerError, SettingsError, SourceError, TransactionError};

use crate::pacer::RateError;
use crate::payload::ReplayError;

/// Class of an error; commands derive their exit code from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The options are invalid.
    Usage,
    /// The target does not respond, or rejects the request.
    Target,
    /// This program or its machine failed.
    Tool,
}

/// Result of an operation of a load worker.
pub type Result<T, E = LoadError> = std::result::Result<T, E>;

/// Error of a load worker.
#[derive(Debug, Error)]
pub enum LoadError {
    /// An option has an invalid value.
    #[error("{option} {value}: {reason}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Given value.
        value: String,
        /// Description of the problem and its remedy.
        reason: String,
    },
    /// The topic does not exist at the bootstrap servers.
    #[error(
        "topic \"{0}\" does not exist at \"{1}\": create it, or let `weir load produce \
         --create-topic` do it"
    )]
    TopicMissing(String, String),
    /// The client properties are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The cluster is not reachable, or rejected the request.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The rate is out of range.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The records to replay cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The schema registry did not accept a schema.
    #[error("schema registry: {0}")]
    Registry(#[from] RegistryError),
    /// The producer did not start.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// Brokers do not accept the producer's transactions.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The topic can no longer be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The consumers did not start.
    #[error(transparent)]
    Consumer(#[from] LeanError),
    /// The program cannot listen on the address.
    #[error("cannot listen on {0}: {1}; is another program using the port?")]
    Listen(String, io::Error),
    /// The file descriptors that these clients need exceed the limit.
    #[error(
        "{0} clients need {1} file descriptors, the limit is {2}: raise the hard limit \
         (ulimit -Hn), use fewer clients, or distribute them with --engine local"
    )]
    Descriptors(usize, u64, u64),
    /// No client could subscribe at the servers; the most frequent reason.
    #[error("no client could subscribe at {0}: {1}")]
    Unreachable(String, String),
    /// Items of a server cannot be followed.
    #[error("{0}: {1}")]
    Tail(String, String),
    /// The operating system denied a resource for an operation.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

impl LoadError {
    /// Returns the error of an option with an invalid value.
    pub(crate) fn option(
        option: &'static str,
        value: &dyn ToString,
        reason: impl Into<String>,
    ) -> Self {
        Self::Option {
            option,
            value: value.to_string(),
            reason: reason.into(),
        }
    }

    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Replay(ReplayError::Topic(_)) => ErrorClass::Target,
            Self::Option { .. }
            | Self::Settings(_)
            | Self::Rate(_)
            | Self::Replay(_)
            | Self::Registry(RegistryError::Url { .. } | RegistryError::Encryption(_))
            | Self::Listen(..)
            | Self::Consumer(LeanError::Config { .. } | LeanError::Security(_)) => {
                ErrorClass::Usage
            }
            Self::Producer(
                ProducerError::UnknownAcks { .. }
                | ProducerError::Settings(_)
                | ProducerError::Property(_)
                | ProducerError::Rejected { .. },
            )
            | Self::Source(
                SourceError::Settings(_) | SourceError::Property(_) | SourceError::Rejected(_),
            ) => ErrorClass::Usage,
            Self::Descriptors(..) | Self::System(..) => ErrorClass::Tool,
            _ => ErrorClass::Target,
        }
    }
}
