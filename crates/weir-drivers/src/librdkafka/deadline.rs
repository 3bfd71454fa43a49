//! Deadline of a command (part of its timeout, or the end of the input), and errors of commands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use thiserror::Error;

pub(super) type CommandOutcome<T> = Result<T, CommandError>;

#[derive(Debug, Error)]
pub(super) enum CommandError {
    #[error("configure must precede this command")]
    NotConfigured,
    #[error("protocol {0} is not supported, only {supported}", supported = crate::PROTOCOL)]
    Protocol(u32),
    #[error("{name} {value}: invalid value for this setting")]
    Setting {
        name: String,
        value: serde_json::Value,
    },
    #[error("client_file: {0}")]
    ClientFile(#[source] std::io::Error),
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
    /// The deadline of the command has passed; `error` is empty or starts with a semicolon.
    #[error("{done} of {expected} records {what} before the timeout{error}")]
    TimedOut {
        what: &'static str,
        done: u64,
        expected: u64,
        error: String,
    },
    #[error("abandoned when the input ended")]
    Halted,
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl CommandError {
    /// Returns a conversion that adds the failed operation to an error of librdkafka.
    pub(super) fn kafka(doing: &'static str) -> impl Fn(KafkaError) -> Self {
        move |error| Self::Kafka { doing, error }
    }

    pub(super) fn topic(topic: &str, reason: impl ToString) -> Self {
        Self::Topic {
            topic: topic.to_owned(),
            reason: reason.to_string(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline<'a> {
    deadline: Instant,
    halt: &'a AtomicBool,
}

impl<'a> Deadline<'a> {
    /// Creates the deadline of a command that was received at `received` and whose driver is killed
    /// after `timeout`.
    pub(super) fn new(received: Instant, timeout: Duration, halt: &'a AtomicBool) -> Self {
        // A year is effectively no limit, and does not overflow an instant.
        let own = timeout.min(YEAR) * SHARE.0 / SHARE.1;
        Self {
            deadline: received + own,
            halt,
        }
    }

    /// Returns the remaining time. The error says that `done` of `expected` records were handled,
    /// and has the last `error`, unless it is empty.
    pub(super) fn left(
        &self,
        what: &'static str,
        (done, expected): (u64, u64),
        error: &str,
    ) -> CommandOutcome<Duration> {
        if self.halt.load(Ordering::Relaxed) {
            return Err(CommandError::Halted);
        }
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(CommandError::TimedOut {
                what,
                done,
                expected,
                error: match error {
                    "" => String::new(),
                    error => format!("; last error: {error}"),
                },
            }),
            left => Ok(left),
        }
    }
}

/// Share of the timeout for the command; the rest is for its response.
const SHARE: (u32, u32) = (4, 5);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_is_before_the_timeout() {
        let halt = AtomicBool::new(false);
        let received = Instant::now();
        let left = |deadline: &Deadline<'_>| deadline.left("sent", (1, 2), "none");
        let deadline = Deadline::new(received, Duration::from_secs(100), &halt);
        assert!(left(&deadline).expect("80 s") <= Duration::from_secs(80));
        let expired = Deadline::new(received, Duration::ZERO, &halt);
        assert_eq!(
            left(&expired).expect_err("no time").to_string(),
            "1 of 2 records sent before the timeout; last error: none"
        );
        assert!(left(&Deadline::new(received, Duration::MAX, &halt)).is_ok());
        halt.store(true, Ordering::Relaxed);
        assert!(matches!(left(&deadline), Err(CommandError::Halted)));
    }
}
