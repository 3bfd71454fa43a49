//! Why a command could not be done.

use rdkafka::error::KafkaError;
use thiserror::Error;

/// Why a command could not be done; the orchestrator shows it to people.
#[derive(Debug, Error)]
pub(super) enum CommandError {
    #[error("configure has to come first")]
    NotConfigured,
    #[error("protocol {0} is not spoken here, only {ours}", ours = crate::PROTOCOL)]
    Protocol(u32),
    #[error("{name} {value}: {reason}")]
    Setting {
        name: String,
        value: String,
        reason: String,
    },
    #[error("a value of {0} bytes is too large for a driver")]
    Value(u64),
    #[error("{0}")]
    Rate(#[from] weir_load::pacer::RateError),
    #[error("{doing}: {error}")]
    Kafka {
        doing: &'static str,
        error: KafkaError,
    },
    #[error("topic \"{topic}\": {reason}")]
    Topic { topic: String, reason: String },
    /// The command's time is over.
    #[error("{done} of {wanted} records {what} when time was over{}", last(.error))]
    Late {
        what: &'static str,
        done: u64,
        wanted: u64,
        error: String,
    },
    #[error("{doing} when the input ended")]
    Halted { doing: &'static str },
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

fn last(error: &str) -> String {
    match error {
        "" => String::new(),
        error => format!("; the last error was: {error}"),
    }
}

impl CommandError {
    /// What librdkafka says, and what it was asked for.
    pub(super) fn kafka(doing: &'static str) -> impl Fn(KafkaError) -> Self {
        move |error| Self::Kafka { doing, error }
    }
}
