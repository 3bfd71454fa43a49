//! Errors of commands.

use rdkafka::error::KafkaError;
use thiserror::Error;

use super::deadline::WaitAborted;

/// Response of a command, or its error.
pub(super) type CommandOutcome<T> = Result<T, CommandError>;

/// Error of a command, as shown to users.
#[derive(Debug, Error)]
pub(super) enum CommandError {
    #[error("configure must precede this command")]
    NotConfigured,
    #[error("protocol {0} is not supported, only {supported}", supported = crate::PROTOCOL)]
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
    /// The deadline of the command has passed.
    #[error("{done} of {expected} records {what} before the timeout{}", last_error(.error))]
    TimedOut {
        what: &'static str,
        done: u64,
        expected: u64,
        error: String,
    },
    #[error("{doing} when the input ended")]
    Halted { doing: &'static str },
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

fn last_error(error: &str) -> String {
    match error {
        "" => String::new(),
        error => format!("; last error: {error}"),
    }
}

impl CommandError {
    /// Returns a conversion that adds the failed operation to an error of librdkafka.
    pub(super) fn kafka(doing: &'static str) -> impl Fn(KafkaError) -> Self {
        move |error| Self::Kafka { doing, error }
    }
}

/// Returns the error of a command whose deadline has passed, or whose input has ended.
pub(super) fn late(
    what: &'static str,
    done: u64,
    expected: u64,
    reason: WaitAborted,
    error: &str,
) -> CommandError {
    match reason {
        WaitAborted::TimedOut => CommandError::TimedOut {
            what,
            done,
            expected,
            error: error.to_owned(),
        },
        WaitAborted::Halted => CommandError::Halted { doing: "abandoned" },
    }
}
