//! Sources of OAUTHBEARER tokens: a fixed token, a file, or a token endpoint (client credentials).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::bearer::BearerToken;
use super::cache::Cache;
use super::encode::percent;
use super::error::{TokenError, peer_text};
use crate::http::{self, HttpRequest};
use crate::secret::Secret;
use crate::stores::{self, Roots};

/// Source of OAUTHBEARER tokens. Clones share the current token.
#[derive(Debug, Clone)]
pub struct TokenSource {
    origin: TokenOrigin,
    extensions: Vec<(String, String)>,
    cache: Arc<Cache<BearerToken>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TokenOrigin {
    Fixed(Secret),
    File(String),
    Endpoint(TokenEndpoint),
}

/// A token endpoint and the client's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenEndpoint {
    /// URL with `https:` or `http:`.
    pub url: String,
    /// Client id.
    pub client_id: String,
    /// Client secret.
    pub client_secret: Secret,
    /// Requested scope.
    pub scope: Option<String>,
    /// Encodes id and secret as RFC 6749 requires; Kafka's default is `false`.
    pub urlencode: bool,
    /// Authorities of the endpoint's certificate.
    pub roots: Roots,
}

impl PartialEq for TokenSource {
    fn eq(&self, other: &Self) -> bool {
        self.origin == other.origin && self.extensions == other.extensions
    }
}

impl Eq for TokenSource {}

impl TokenSource {
    /// Creates a source with one token.
    pub fn fixed(token: Secret, extensions: Vec<(String, String)>) -> Self {
        Self::new(TokenOrigin::Fixed(token), extensions)
    }

    /// Creates a source that reads a file, again before the token expires.
    pub fn file(path: impl Into<String>, extensions: Vec<(String, String)>) -> Self {
        Self::new(TokenOrigin::File(path.into()), extensions)
    }

    /// Creates a source that requests tokens from an endpoint.
    pub fn endpoint(endpoint: TokenEndpoint, extensions: Vec<(String, String)>) -> Self {
        Self::new(TokenOrigin::Endpoint(endpoint), extensions)
    }

    fn new(origin: TokenOrigin, extensions: Vec<(String, String)>) -> Self {
        Self {
            origin,
            extensions,
            cache: Cache::new(),
        }
    }

    /// Returns a valid token. Blocks while a file or endpoint is read; a token is reused until
    /// it is about to expire.
    ///
    /// # Errors
    /// The file or endpoint returned no valid token.
    pub fn token(&self) -> Result<BearerToken, TokenError> {
        let (origin, extensions) = (self.origin.clone(), self.extensions.clone());
        let obtain = move || {
            let token = origin.obtain(&extensions)?;
            let expires = token.expires;
            Ok((token, expires))
        };
        let obtain: Arc<dyn Fn() -> _ + Send + Sync> = Arc::new(obtain);
        self.cache.get(&obtain)
    }

    /// Returns the current token if it is valid. Does not block.
    pub fn cached(&self) -> Option<BearerToken> {
        self.cache.current()
    }

    /// Returns `true` if the login sends SASL extensions.
    pub fn has_extensions(&self) -> bool {
        !self.extensions.is_empty()
    }
}

impl TokenOrigin {
    fn obtain(&self, extensions: &[(String, String)]) -> Result<BearerToken, TokenError> {
        match self {
            Self::Fixed(token) => {
                let name = "sasl.oauthbearer.token";
                BearerToken::parse(token.reveal(), name, None, "", extensions)
            }
            Self::File(path) => {
                let bytes = stores::read_file(Path::new(path));
                let bytes = bytes.map_err(|error| TokenError::File {
                    path: path.clone(),
                    error,
                })?;
                let text = String::from_utf8_lossy(&bytes);
                let name = format!("file \"{path}\"");
                BearerToken::parse(text.trim(), &name, None, "", extensions)
            }
            Self::Endpoint(endpoint) => endpoint.request(extensions),
        }
    }
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: Option<f64>,
}

/// Error response (RFC 6749, section 5.2).
#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
    error_description: Option<String>,
}

impl TokenEndpoint {
    fn request(&self, extensions: &[(String, String)]) -> Result<BearerToken, TokenError> {
        let encode = |text: &str| match self.urlencode {
            true => percent(text),
            false => text.to_owned(),
        };
        let (id, secret) = (encode(&self.client_id), encode(self.client_secret.reveal()));
        let login = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        let mut body = "grant_type=client_credentials".to_owned();
        if let Some(scope) = &self.scope {
            body.push_str(&format!("&scope={}", percent(scope)));
        }
        let request = HttpRequest {
            method: "POST",
            url: &self.url,
            headers: &[
                ("authorization", &login),
                ("accept", "application/json"),
                ("content-type", "application/x-www-form-urlencoded"),
            ],
            body: Some(body.as_bytes()),
            timeout: TIMEOUT,
            proxy: true,
        };
        let response = http::send(&request, &self.roots);
        let response = response.map_err(|error| TokenError::Http {
            service: SERVICE,
            error,
        })?;
        if response.status != 200 {
            let error: Option<ErrorResponse> = serde_json::from_slice(&response.body).ok();
            let detail = error.map_or_else(String::new, |error| {
                let description = error.error_description.unwrap_or_default();
                format!(
                    " ({})",
                    peer_text(format!("{} {description}", error.error).trim())
                )
            });
            return Err(TokenError::Rejected {
                service: SERVICE,
                status: response.status,
                detail,
            });
        }
        let token: TokenResponse =
            serde_json::from_slice(&response.body).map_err(|_| TokenError::Response {
                service: SERVICE,
                reason: "it is not a JSON object with access_token and expires_in",
            })?;
        let lifetime = token.expires_in.filter(|it| it.is_finite() && *it > 0.0);
        let lifetime = lifetime.map(|it| Duration::from_secs_f64(it.min(LIFETIME_SECONDS_MAX)));
        let expires = lifetime.map(|lifetime| SystemTime::now() + lifetime);
        let name = "the token endpoint";
        BearerToken::parse(
            &token.access_token,
            name,
            expires,
            &self.client_id,
            extensions,
        )
    }
}

const SERVICE: &str = "token endpoint";
/// Kafka's clients wait as long for a connection and a response.
const TIMEOUT: Duration = Duration::from_secs(10);
const LIFETIME_SECONDS_MAX: f64 = 31_536_000.0;
