//! Errors of requests to a schema registry. No message contains a password, secret or token.

use std::time::Duration;

use thiserror::Error;

/// Reason why a registry did not return what was requested.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistryError {
    /// The URL is not one of a registry.
    #[error("schema registry URL \"{url}\": {reason}")]
    Url {
        /// URL without user name and password.
        url: String,
        /// Cause and remedy.
        reason: &'static str,
    },
    /// Keys, certificates or cipher suites cannot be used.
    #[error("encryption of the schema registry: {0}")]
    Encryption(String),
    /// No connection, or it broke.
    #[error("{url}: no connection: {reason}")]
    Connection {
        /// Request URL.
        url: String,
        /// Cause.
        reason: String,
    },
    /// No complete response in time.
    #[error("{url}: no response within {} ms", .timeout.as_millis())]
    Timeout {
        /// Request URL.
        url: String,
        /// Limit.
        timeout: Duration,
    },
    /// The registry rejected the login.
    #[error("{url}: login rejected with status {status}; check user name, password or secret")]
    Login {
        /// Request URL.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// The registry does not know the schema or subject.
    #[error("{url}: not found{message}")]
    NotFound {
        /// Request URL.
        url: String,
        /// Empty, or the text of the registry after a colon.
        message: String,
    },
    /// Any other status than success.
    #[error("{url}: status {status}{message}")]
    Status {
        /// Request URL.
        url: String,
        /// HTTP status.
        status: u16,
        /// Empty, or the text of the registry after a colon.
        message: String,
    },
    /// The response is not one of a schema registry.
    #[error("{url}: invalid response: {reason}")]
    Response {
        /// Request URL.
        url: String,
        /// Cause.
        reason: String,
    },
    /// A schema has too many references, or they form a cycle.
    #[error("schema {id} has more than {max} references")]
    References {
        /// Schema.
        id: String,
        /// Limit.
        max: usize,
    },
}

impl RegistryError {
    /// Returns `true` if the registry responded that it does not know the schema or subject.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Returns `true` if the same request may succeed later without a change of the configuration
    /// or of the schema.
    pub fn is_transient(&self) -> bool {
        !matches!(
            self,
            Self::Url { .. }
                | Self::Encryption(_)
                | Self::Response { .. }
                | Self::References { .. }
        )
    }
}
