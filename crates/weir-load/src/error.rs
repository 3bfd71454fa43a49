//! Why producing, consuming or the floor could not go on, by whose fault.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_kafka::lean::LeanError;
use weir_kafka::{AdminError, ProducerError, SourceError};

use crate::payload::ReplayError;

/// Whose fault an error is; commands turn it into their exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The options make no sense.
    Usage,
    /// The target does not answer or refuses.
    Target,
    /// This program or its machine failed.
    Instrument,
}

/// Why a load worker could not go on.
#[derive(Debug, Error)]
pub enum LoadError {
    /// An option that cannot be meant.
    #[error("{option} {value}: {reason}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The value given.
        value: String,
        /// What is wrong and the remedy.
        reason: String,
    },
    /// The topic does not exist.
    #[error(
        "topic \"{topic}\" does not exist at \"{bootstrap_servers}\": create it, or let \
         `weir load produce --create-topic` do it"
    )]
    TopicMissing {
        /// Topic asked for.
        topic: String,
        /// Servers asked.
        bootstrap_servers: String,
    },
    /// Cluster not reachable, or it refused.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// There are no records to send again.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The producer could not be started.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The topic can no longer be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The consumers could not begin.
    #[error(transparent)]
    Consumer(#[from] LeanError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}; is another program using the port?")]
    Listen {
        /// The address.
        address: String,
        /// The operating system's reason.
        reason: std::io::Error,
    },
    /// The operating system refused something this program needs.
    #[error("{what}: {reason}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The operating system's reason.
        reason: std::io::Error,
    },
}

impl LoadError {
    /// Whose fault it is.
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Replay(ReplayError::Topic(_)) => ErrorClass::Target,
            Self::Option { .. }
            | Self::Replay(_)
            | Self::Listen { .. }
            | Self::Consumer(LeanError::Config { .. }) => ErrorClass::Usage,
            Self::Producer(
                ProducerError::UnknownAcks { .. }
                | ProducerError::Property(_)
                | ProducerError::Refused { .. },
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
