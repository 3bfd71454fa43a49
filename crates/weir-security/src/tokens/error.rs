//! Errors of tokens. No message contains a secret.

use thiserror::Error;

use crate::http::HttpError;
use crate::stores::StoreError;

/// Reason why no token or signature is available.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum TokenError {
    #[error("the settings have no token: set sasl.mechanism to OAUTHBEARER or AWS_MSK_IAM")]
    NotNeeded,
    #[error("the token of {source_name} is empty")]
    Empty { source_name: String },
    #[error("the token of {source_name} is longer than {max} bytes")]
    TooLong { source_name: String, max: usize },
    #[error("the token of {source_name} contains characters that tokens cannot have")]
    Characters { source_name: String },
    #[error("the token of {source_name} expired at {date}: provide a new one")]
    Expired { source_name: String, date: String },
    #[error("token file \"{path}\" {error}")]
    File { path: String, error: StoreError },
    #[error("{service}: {error}")]
    Http {
        service: &'static str,
        error: HttpError,
    },
    #[error("{service} rejected the request with status {status}{detail}: check the credentials")]
    Rejected {
        service: &'static str,
        status: u16,
        detail: String,
    },
    #[error("{service} sent a response that is not understood: {reason}")]
    Response {
        service: &'static str,
        reason: &'static str,
    },
    #[error(
        "no AWS credentials were found ({tried}): set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, a profile, or a role"
    )]
    NoCredentials { tried: String },
    #[error("AWS profile \"{profile}\": {reason}")]
    Profile { profile: String, reason: String },
    #[error("environment variable {name} {reason}")]
    Variable {
        name: &'static str,
        reason: &'static str,
    },
    #[error("the clock of this machine is before 1970 or after 9999")]
    Clock,
}

/// Returns text of a service, shortened and without control characters.
pub(super) fn peer_text(text: &str) -> String {
    let visible = text
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it });
    visible.take(PEER_TEXT_CHARS_MAX).collect()
}

const PEER_TEXT_CHARS_MAX: usize = 200;
