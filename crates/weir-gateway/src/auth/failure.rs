//! Reasons why a client gets no session, and the line that it receives.

use weir_identity::TooManyValues;
use weir_identity::token::{TokenError, TokenRejection};
use weir_tlcp::codes::SessionCode;

/// Reason why a client is not identified or admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthFailure {
    #[error("there are no credentials")]
    NoCredentials,
    #[error("the token is in the URL")]
    TokenInUrl,
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A fetch of keys is under way that may bring the key of the token.
    #[error("keys are being fetched")]
    KeysPending,
    #[error("user or tenant has too many sessions")]
    TooManySessions,
    #[error(transparent)]
    Claims(#[from] TooManyValues),
}

impl AuthFailure {
    /// Returns code and text for the client. The text is the same whichever check failed.
    pub(crate) fn refusal(&self) -> (SessionCode, &'static str) {
        let code = match self {
            Self::Claims(_) => return (SessionCode::from_code(-11), "Too many claim values"),
            Self::TooManySessions => return (SessionCode::from_code(-12), "Too many sessions"),
            Self::KeysPending => SessionCode::RETRY_LATER,
            Self::NoCredentials | Self::TokenInUrl => SessionCode::USER_REFUSED,
            Self::Token(error) => match error.rejection() {
                TokenRejection::Credentials => SessionCode::USER_REFUSED,
                TokenRejection::Unavailable => SessionCode::RETRY_LATER,
            },
        };
        (code, code.text())
    }

    /// Returns the reason for metrics and the audit log.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NoCredentials => "no_credentials",
            Self::TokenInUrl => "token_in_url",
            Self::Token(error) => error.reason(),
            Self::KeysPending => "keys_pending",
            Self::TooManySessions => "too_many_sessions",
            Self::Claims(_) => "claim_values",
        }
    }
}
