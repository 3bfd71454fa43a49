//! Logins with AWS credentials, at clusters of Amazon MSK.

mod credentials;
mod environment;
mod keys;
mod metadata;
mod options;
mod profile;
mod signature;
mod sts;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::bearer::BearerToken;
use super::cache::Cache;
use super::encode::{form, timestamp};
use super::error::TokenError;
use crate::secret::Secret;
use environment::Environment;
use keys::AwsCredentials;
pub use options::AwsOptions;
use options::{domain, region_of};
use signature::{Scope, signed_query};

/// Source of AWS credentials. Clones share the current credentials.
#[derive(Debug, Clone)]
pub struct AwsCredentialSource {
    options: AwsOptions,
    region: String,
    environment: Environment,
    cache: Arc<Cache<AwsCredentials>>,
}

impl PartialEq for AwsCredentialSource {
    fn eq(&self, other: &Self) -> bool {
        (&self.options, &self.region, &self.environment)
            == (&other.options, &other.region, &other.environment)
    }
}

impl Eq for AwsCredentialSource {}

impl AwsCredentialSource {
    /// Creates a source. Returns `None` if the region follows neither from the options nor from
    /// `servers` nor from the environment.
    pub fn new(options: AwsOptions, servers: &str) -> Option<Self> {
        Self::with_environment(options, servers, Environment::Process)
    }

    pub(super) fn with_environment(
        options: AwsOptions,
        servers: &str,
        environment: Environment,
    ) -> Option<Self> {
        let variable = || {
            let region = environment.variable("AWS_REGION");
            region.or_else(|| environment.variable("AWS_DEFAULT_REGION"))
        };
        let region = options.region.clone();
        let region = region.or_else(|| region_of(servers)).or_else(variable)?;
        Some(Self {
            options,
            region,
            environment,
            cache: Cache::new(),
        })
    }

    /// Returns the message of the mechanism AWS_MSK_IAM for the broker `host`. Blocks while
    /// credentials are requested.
    ///
    /// # Errors
    /// No credentials are available.
    pub fn client_response(&self, host: &str) -> Result<Vec<u8>, TokenError> {
        self.payload(&self.credentials()?, host, SystemTime::now())
    }

    /// Returns a token that brokers of Amazon MSK accept with the mechanism OAUTHBEARER. Blocks
    /// while credentials are requested.
    ///
    /// # Errors
    /// No credentials are available.
    pub fn token(&self) -> Result<BearerToken, TokenError> {
        self.bearer(&self.credentials()?, SystemTime::now())
    }

    fn credentials(&self) -> Result<AwsCredentials, TokenError> {
        let (options, environment) = (self.options.clone(), self.environment.clone());
        let sts_region = options
            .sts_region
            .clone()
            .unwrap_or_else(|| self.region.clone());
        let obtain = move || {
            let found = credentials::find(&options, &sts_region, &environment)?;
            let expires = found
                .expires
                .unwrap_or_else(|| SystemTime::now() + REREAD_INTERVAL);
            Ok((found, expires))
        };
        let obtain: Arc<dyn Fn() -> _ + Send + Sync> = Arc::new(obtain);
        self.cache.get(&obtain)
    }

    fn payload(
        &self,
        credentials: &AwsCredentials,
        host: &str,
        now: SystemTime,
    ) -> Result<Vec<u8>, TokenError> {
        let query = self.signed(credentials, host, now)?;
        let mut message = serde_json::Map::new();
        let mut add = |name: &str, value: &str| {
            message.insert(name.to_ascii_lowercase(), value.into());
        };
        add("version", PAYLOAD_VERSION);
        add("host", host);
        add("user-agent", USER_AGENT);
        for (name, value) in &query {
            add(name, value);
        }
        Ok(serde_json::Value::Object(message).to_string().into_bytes())
    }

    fn bearer(
        &self,
        credentials: &AwsCredentials,
        now: SystemTime,
    ) -> Result<BearerToken, TokenError> {
        let host = format!("kafka.{}.{}", self.region, domain(&self.region));
        let mut query = self.signed(credentials, &host, now)?;
        query.push(("User-Agent", USER_AGENT.to_owned()));
        let pairs: Vec<_> = query
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let url = format!("https://{host}/?{}", form(&pairs));
        let limit = now + Duration::from_secs(EXPIRES_SECONDS);
        Ok(BearerToken {
            token: Secret::new(URL_SAFE_NO_PAD.encode(url)),
            principal: credentials.key_id.clone(),
            expires: credentials
                .expires
                .map_or(limit, |expires| expires.min(limit)),
            extensions: Vec::new(),
        })
    }

    fn signed(
        &self,
        credentials: &AwsCredentials,
        host: &str,
        now: SystemTime,
    ) -> Result<Vec<(&'static str, String)>, TokenError> {
        let scope = Scope {
            time: timestamp(now)?,
            region: &self.region,
            service: "kafka-cluster",
        };
        let action = ("Action", "kafka-cluster:Connect".to_owned());
        Ok(signed_query(
            credentials,
            &scope,
            host,
            action,
            EXPIRES_SECONDS,
        ))
    }
}

const PAYLOAD_VERSION: &str = "2020_10_22";
const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));
/// Validity of a signature, as Amazon's own clients choose it.
const EXPIRES_SECONDS: u64 = 900;
/// Credentials without an end may still be replaced in files and variables.
const REREAD_INTERVAL: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
