//! Reasons why a client gets no session, and the line that it receives.

use weir_identity::TooManyValues;
use weir_identity::token::{TokenError, TokenRejection};
use weir_tlcp::codes::SessionCode;

/// Reason why a client is not identified or admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthFailure {
    /// The request has no credentials, and anonymous clients are not allowed.
    #[error("there are no credentials")]
    NoCredentials,
    /// A token came in the URL, where proxies log it.
    #[error("the token is in the URL")]
    TokenInUrl,
    /// The token is not valid.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A fetch of keys is under way that may bring the key of the token.
    #[error("keys are being fetched")]
    KeysPending,
    /// The revocations of other gateways are not known yet.
    #[error("revocations are being read")]
    RevocationsPending,
    /// The user or the tenant has too many sessions.
    #[error("user or tenant has too many sessions")]
    TooManySessions,
    /// A claim that rules use has too many values.
    #[error(transparent)]
    Claims(#[from] TooManyValues),
}

impl AuthFailure {
    /// Returns code and text for the client. The text is the same whichever check failed.
    pub fn refusal(&self) -> (SessionCode, &'static str) {
        let code = match self {
            Self::Claims(_) => return (SessionCode::from_code(-11), "Too many claim values"),
            Self::TooManySessions => return (SessionCode::from_code(-12), "Too many sessions"),
            Self::KeysPending | Self::RevocationsPending => SessionCode::RETRY_LATER,
            Self::NoCredentials | Self::TokenInUrl => SessionCode::USER_REFUSED,
            Self::Token(error) => match error.rejection() {
                TokenRejection::Credentials => SessionCode::USER_REFUSED,
                TokenRejection::Unavailable => SessionCode::RETRY_LATER,
            },
        };
        (code, code.text())
    }

    /// Returns `true` if the keys of this issuer are not available.
    pub(crate) fn lacks_keys_of(&self, number: usize) -> bool {
        let unavailable = TokenError::KeysUnavailable { issuer: number };
        *self == Self::Token(unavailable)
    }

    /// Returns the reason for metrics and the audit log.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoCredentials => "no_credentials",
            Self::TokenInUrl => "token_in_url",
            Self::Token(error) => error.reason(),
            Self::KeysPending => "keys_pending",
            Self::RevocationsPending => "revocations_pending",
            Self::TooManySessions => "too_many_sessions",
            Self::Claims(_) => "claim_values",
        }
    }
}
