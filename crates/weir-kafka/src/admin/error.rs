//! Errors of administrative calls.

use kafka_protocol::error::ResponseError;
use thiserror::Error;

use crate::connect_error::ConnectError;

/// Reason why an administrative call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum AdminError {
    #[error(
        "no response from a Kafka broker at \"{bootstrap_servers}\" within {timeout_ms} ms \
         ({reason}): check the address and that the broker is running"
    )]
    Unreachable {
        bootstrap_servers: String,
        timeout_ms: u128,
        reason: String,
    },
    /// A broker rejected the login, or its certificate was rejected. Retrying does not help.
    #[error(transparent)]
    Refused(#[from] ConnectError),
    #[error("cannot {action} topic \"{topic}\": {reason}")]
    Topic {
        action: &'static str,
        topic: String,
        reason: String,
    },
    /// Kafka accepted the request, but not all brokers reported the result before the timeout.
    #[error("topic \"{topic}\" is not {wanted} on every broker after {timeout_ms} ms: {last}")]
    NotSettled {
        topic: String,
        wanted: &'static str,
        timeout_ms: u128,
        last: String,
    },
}

/// A response that cannot be decoded, or lacks what was requested.
#[derive(Debug, Error)]
#[error("{0}")]
pub(super) struct InvalidResponse(String);

impl InvalidResponse {
    pub(super) fn of(error: impl ToString) -> Self {
        Self(error.to_string())
    }
}

pub(super) fn topic_error(action: &'static str, topic: &str, reason: String) -> AdminError {
    AdminError::Topic {
        action,
        topic: topic.to_owned(),
        reason,
    }
}

/// Returns the name of a Kafka error code, with the broker's explanation.
pub(super) fn reason(code: i16, message: Option<&str>) -> String {
    let name = ResponseError::try_from_code(code).map_or_else(String::new, |it| it.to_string());
    match message {
        Some(text) if !text.is_empty() => format!("{name}: {text}"),
        _ => name,
    }
}
