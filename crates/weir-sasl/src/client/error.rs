//! Errors of logins. No message contains a password or token.

use thiserror::Error;
use weir_security::TokenError;

use weir_wire::{EncodeError, WireError};

use crate::random::NoRandom;

/// Reason why a broker or this client rejected a login.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum LoginError {
    #[error(
        "mechanism {mechanism} is not enabled on this listener, which has {}: set sasl.mechanism \
         to one of them, or use another port",
        list(.offered)
    )]
    UnsupportedMechanism {
        mechanism: &'static str,
        offered: Vec<String>,
    },
    #[error("{mechanism} login rejected: {reason}; check user name and password or token")]
    Rejected {
        mechanism: &'static str,
        reason: String,
    },
    #[error("the listener has no SASL: use a security.protocol without SASL, or another port")]
    SaslNotEnabled,
    #[error("the broker does not support SaslAuthenticate requests, which Kafka 1.0 introduced")]
    BrokerTooOld,
    #[error("{request}: Kafka error code {code}{}", detail(.message))]
    KafkaError {
        request: &'static str,
        code: i16,
        message: String,
    },
    #[error("{mechanism}: {error}")]
    Scram {
        mechanism: &'static str,
        error: ScramError,
    },
    #[error("{mechanism}: the broker sent data after the login was complete")]
    UnexpectedData { mechanism: &'static str },
    #[error("{mechanism}: {error}")]
    Token {
        mechanism: &'static str,
        error: TokenError,
    },
    #[error("invalid response to a login request: {0}")]
    Wire(#[from] WireError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Random(#[from] NoRandom),
}

impl LoginError {
    /// Returns `true` if another attempt with the same configuration is expected to fail as well.
    /// After [`Self::Token`] another attempt may succeed, because the token comes from a file or an
    /// endpoint.
    pub fn is_final(&self) -> bool {
        match self {
            Self::UnsupportedMechanism { .. }
            | Self::Rejected { .. }
            | Self::SaslNotEnabled
            | Self::BrokerTooOld
            | Self::Scram { .. }
            | Self::UnexpectedData { .. }
            | Self::KafkaError { .. }
            | Self::Encode(_) => true,
            Self::Token { .. } | Self::Wire(_) | Self::Random(_) => false,
        }
    }
}

/// Error of a SCRAM exchange that the server caused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum ScramError {
    #[error("invalid server message: {0}")]
    Message(&'static str),
    #[error("the server did not repeat the client's nonce")]
    Nonce,
    #[error("{iterations} iterations are outside {min} to {max}")]
    Iterations { iterations: u32, min: u32, max: u32 },
    #[error("the server reported \"{0}\"")]
    Server(String),
    #[error("the server's signature is wrong: it does not know the password")]
    Signature,
}

/// Returns a text that the broker sent, shortened and with control characters replaced by spaces.
pub(super) fn peer_text(text: &str) -> String {
    let visible = text
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it });
    visible.take(PEER_TEXT_CHARS_MAX).collect()
}

/// Returns the names of mechanisms for an error message.
fn list(names: &[String]) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => peer_text(&names.join(", ")),
    }
}

/// Returns the broker's message in parentheses; empty if there is none.
fn detail(message: &str) -> String {
    match message.is_empty() {
        true => String::new(),
        false => format!(" ({message})"),
    }
}

const PEER_TEXT_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_state_cause_and_remedy() {
        let error = LoginError::UnsupportedMechanism {
            mechanism: "PLAIN",
            offered: vec!["SCRAM-SHA-256".to_owned(), "GSSAPI".to_owned()],
        };
        let text = error.to_string();
        assert!(
            text.contains("which has SCRAM-SHA-256, GSSAPI: set"),
            "{text}"
        );
        let none = LoginError::UnsupportedMechanism {
            mechanism: "PLAIN",
            offered: vec![],
        };
        assert!(none.to_string().contains("which has none"));
        let code = LoginError::KafkaError {
            request: "SaslAuthenticate",
            code: 7,
            message: String::new(),
        };
        assert_eq!(code.to_string(), "SaslAuthenticate: Kafka error code 7");
    }

    #[test]
    fn peer_text_is_short_and_visible() {
        assert_eq!(peer_text("a\u{1b}[31m\nb"), "a [31m b");
        assert_eq!(peer_text(&"x".repeat(5000)).len(), PEER_TEXT_CHARS_MAX);
    }
}
