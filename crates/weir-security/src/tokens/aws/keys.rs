//! Access keys of an AWS principal.

use std::time::SystemTime;

use jiff::Timestamp;
use serde::Deserialize;

use super::super::error::TokenError;
use super::environment::Environment;
use crate::secret::Secret;

/// Credentials of an AWS principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AwsCredentials {
    pub(super) key_id: String,
    pub(super) secret_key: Secret,
    pub(super) session_token: Option<Secret>,
    pub(super) expires: Option<SystemTime>,
}

/// The form in which containers, instances and processes return credentials.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CredentialResponse {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "SessionToken")]
    token: Option<String>,
    expiration: Option<String>,
}

impl AwsCredentials {
    /// Parses the JSON object of a metadata service.
    pub(super) fn parse(service: &'static str, json: &[u8]) -> Result<Self, TokenError> {
        let invalid = |reason| TokenError::Response { service, reason };
        let response: CredentialResponse = serde_json::from_slice(json)
            .map_err(|_| invalid("it is not a JSON object with AccessKeyId and SecretAccessKey"))?;
        let expires = response
            .expiration
            .map(|text| expiration(&text))
            .transpose();
        Self::new(
            response.access_key_id,
            response.secret_access_key,
            response.token,
            expires.map_err(invalid)?,
        )
        .ok_or_else(|| invalid("a key contains characters that it cannot have"))
    }

    /// Returns `None` if a part is empty or contains characters that would not survive a signature.
    pub(super) fn new(
        key_id: String,
        secret_key: String,
        session_token: Option<String>,
        expires: Option<SystemTime>,
    ) -> Option<Self> {
        let valid = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic());
        let parts = [Some(&key_id), Some(&secret_key), session_token.as_ref()];
        let all = parts.into_iter().flatten().all(|part| valid(part));
        all.then(|| Self {
            key_id,
            secret_key: Secret::new(secret_key),
            session_token: session_token.map(Secret::new),
            expires,
        })
    }
}

/// Parses the end of validity, such as `2026-11-23T18:00:00Z`.
pub(super) fn expiration(text: &str) -> Result<SystemTime, &'static str> {
    let time: Timestamp = text.parse().map_err(|_| "its expiration is not a time")?;
    Ok(SystemTime::from(time))
}

/// Returns the credentials in environment variables.
pub(super) fn variables(environment: &Environment) -> Result<Option<AwsCredentials>, TokenError> {
    let Some(key_id) = environment.variable("AWS_ACCESS_KEY_ID") else {
        return Ok(None);
    };
    let secret_key = environment.required("AWS_SECRET_ACCESS_KEY")?;
    let token = environment.variable("AWS_SESSION_TOKEN");
    let credentials = AwsCredentials::new(key_id, secret_key, token, None);
    credentials.map(Some).ok_or(TokenError::Variable {
        name: "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_SESSION_TOKEN",
        reason: "contains blanks or control characters",
    })
}
