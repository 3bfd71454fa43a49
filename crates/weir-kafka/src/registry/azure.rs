//! Tokens for a schema registry in Azure Event Hubs, with the credentials of an application.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_security::Secret;

use super::error::RegistryError;
use super::http::HttpClient;

const SCOPE: &str = "https://eventhubs.azure.net/.default";
/// A token is replaced this long before it expires.
const MARGIN: Duration = Duration::from_secs(60);
/// Maximum life of a token, whatever the response says.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Source of tokens. It keeps the current one.
#[derive(Debug)]
pub(super) struct AzureTokens {
    url: String,
    client_id: String,
    client_secret: Secret,
    current: Mutex<Option<AccessToken>>,
}

#[derive(Debug, Clone)]
struct AccessToken {
    text: Secret,
    /// Time from which it is replaced.
    until: Instant,
}

#[derive(Deserialize)]
struct RawToken {
    access_token: String,
    expires_in: u64,
}

impl AzureTokens {
    /// `authority` is the URL of the identity provider.
    pub(super) fn new(
        authority: &str,
        tenant_id: &str,
        client_id: &str,
        client_secret: &Secret,
    ) -> Self {
        let authority = authority.trim_end_matches('/');
        Self {
            url: format!("{authority}/{tenant_id}/oauth2/v2.0/token"),
            client_id: client_id.to_owned(),
            client_secret: client_secret.clone(),
            current: Mutex::default(),
        }
    }

    /// Returns a valid token. Waits while another thread requests one.
    pub(super) fn token(&self, http: &HttpClient) -> Result<Secret, RegistryError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = current
            .as_ref()
            .filter(|token| Instant::now() < token.until)
        {
            return Ok(token.text.clone());
        }
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", self.client_id.as_str()),
            ("client_secret", self.client_secret.reveal()),
            ("scope", SCOPE),
        ];
        let response = http
            .post_form(&self.url, &form)
            .map_err(|error| match error {
                // The identity provider rejects a wrong secret as a bad request.
                RegistryError::Status {
                    url,
                    status: status @ 400,
                    ..
                } => RegistryError::Login { url, status },
                other => other,
            })?;
        let token: RawToken =
            serde_json::from_slice(&response.body).map_err(|_| RegistryError::Response {
                url: self.url.clone(),
                // The text of the error could contain a part of the token.
                reason: "no access_token and expires_in".to_owned(),
            })?;
        let life = Duration::from_secs(token.expires_in).min(LIFE_MAX);
        let text = Secret::new(token.access_token);
        *current = Some(AccessToken {
            text: text.clone(),
            until: Instant::now() + life.saturating_sub(MARGIN),
        });
        Ok(text)
    }

    /// Drops the current token after it was rejected.
    pub(super) fn forget(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
