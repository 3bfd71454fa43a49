//! Errors of producers, consumers and the baseline server, by class.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_kafka::lean::LeanError;
use weir_kafka::{AdminError, ProducerError, SourceError};

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
    Instrument,
}

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
    /// The topic does not exist.
    #[error(
        "topic \"{topic}\" does not exist at \"{bootstrap_servers}\": create it, or let \
         `weir load produce --create-topic` do it"
    )]
    TopicMissing {
        /// Requested topic.
        topic: String,
        /// Queried bootstrap servers.
        bootstrap_servers: String,
    },
    /// The cluster is not reachable, or rejected the request.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The records to replay cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The producer did not start.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The topic can no longer be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The consumers did not start.
    #[error(transparent)]
    Consumer(#[from] LeanError),
    /// The program cannot listen on the address.
    #[error("cannot listen on {address}: {reason}; is another program using the port?")]
    Listen {
        /// Listen address.
        address: String,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// The operating system denied a resource.
    #[error("{what}: {reason}")]
    System {
        /// Failed operation.
        what: &'static str,
        /// Error of the operating system.
        reason: std::io::Error,
    },
}

impl LoadError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Replay(ReplayError::Topic(_)) => ErrorClass::Target,
            Self::Option { .. }
            | Self::Replay(_)
            | Self::Listen { .. }
            | Self::Consumer(LeanError::Config { .. }) => ErrorClass::Usage,
            Self::Producer(
                ProducerError::UnknownAcks { .. }
                | ProducerError::Property(_)
                | ProducerError::Rejected { .. },
            ) => ErrorClass::Usage,
            Self::Producer(ProducerError::Thread { .. }) | Self::System { .. } => {
                ErrorClass::Instrument
            }
            Self::TopicMissing { .. }
            | Self::Admin(_)
            | Self::Producer(_)
            | Self::Source(_)
            | Self::Consumer(_) => ErrorClass::Target,
        }
    }
}
