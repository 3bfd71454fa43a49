//! Reasons why a token is rejected.

use std::fmt;

use thiserror::Error;

use crate::algorithm::Algorithm;

/// Part of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of RFC 7515 and RFC 7519
pub enum TokenPart {
    Header,
    Claims,
    Signature,
}

impl fmt::Display for TokenPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Claims => "claims",
            Self::Signature => "signature",
        })
    }
}

/// Reason why a token is rejected. It contains no part of the token; `issuer` is the position of a
/// configured issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum TokenError {
    #[error("token has more than 8192 bytes")]
    Size,
    #[error("token has not three parts")]
    Parts,
    #[error("{part} is not base64url without padding")]
    Encoding { part: TokenPart },
    #[error("{part} is not a JSON object without duplicate members")]
    Json { part: TokenPart },
    #[error("header parameter \"{name}\" has a wrong type")]
    Header { name: &'static str },
    #[error("header has critical extensions")]
    Critical,
    #[error("algorithm is unknown, or not configured for the issuer")]
    Algorithm,
    #[error("token type is not allowed")]
    Type,
    #[error("claim \"{name}\" is missing")]
    Missing { name: &'static str },
    #[error("claim \"{name}\" has a wrong type or value")]
    Claim { name: &'static str },
    #[error("issuer is not configured")]
    Issuer,
    #[error("keys of issuer {issuer} are not available")]
    KeysUnavailable { issuer: usize },
    #[error("issuer {issuer} has no key with this ID")]
    UnknownKey { issuer: usize },
    #[error("key does not support {algorithm}")]
    KeyAlgorithm { algorithm: Algorithm },
    #[error("several keys fit the token")]
    AmbiguousKey,
    #[error("signature is invalid")]
    Signature,
    #[error("token is for another audience")]
    Audience,
    #[error("token has expired")]
    Expired,
    #[error("token is not valid yet")]
    NotYetValid,
    #[error("token was issued in the future")]
    IssuedInFuture,
    #[error("claim with the user name is missing, empty or too long")]
    User,
    #[error("user name differs from that of the request")]
    OtherUser,
    #[error("token is revoked")]
    Revoked,
}

/// Meaning of a rejected token for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRejection {
    /// The token is not acceptable (`CONERR,1`).
    Credentials,
    /// The token cannot be checked at this time (`CONERR,6`).
    Unavailable,
}

impl TokenError {
    /// Returns the meaning for the client.
    pub fn rejection(self) -> TokenRejection {
        match self {
            Self::KeysUnavailable { .. } => TokenRejection::Unavailable,
            _ => TokenRejection::Credentials,
        }
    }

    /// Returns the reason for metrics and the audit log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Size | Self::Parts | Self::Encoding { .. } | Self::Json { .. } => "malformed",
            Self::Header { .. } | Self::Critical => "header",
            Self::Algorithm => "algorithm",
            Self::Type => "type",
            Self::Missing { .. } | Self::Claim { .. } => "claim",
            Self::Issuer => "issuer",
            Self::KeysUnavailable { .. } => "keys_unavailable",
            Self::UnknownKey { .. } => "unknown_key",
            Self::KeyAlgorithm { .. } | Self::AmbiguousKey => "key",
            Self::Signature => "signature",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::NotYetValid | Self::IssuedInFuture => "not_yet_valid",
            Self::User => "user",
            Self::OtherUser => "other_user",
            Self::Revoked => "revoked",
        }
    }
}
