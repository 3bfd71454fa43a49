//! Settings of a connection's schema registry: the connector's parameters and `[schema_registry]`
//! of `gateway.toml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use weir_kafka::registry::{
    FileCache, LookupLimits, Lookups, RegistryClient, RegistryLogin, RegistrySettings,
};
use weir_kafka::{KafkaSettings, SettingsError};
use weir_mapping::{ConnectionConfig, RegistryConfig, SchemaTable};
use weir_security::{Login, Secret, TlsSettings};

use super::loader::SchemaLoader;

/// Variable of Azure's libraries with the URL of the identity provider.
const AZURE_AUTHORITY: &str = "AZURE_AUTHORITY_HOST";

/// `[schema_registry]`: lookups of schemas, for all connections.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SchemaRegistryConfig {
    /// Directory in which schemas are stored, so that the gateway starts while a registry is down.
    /// Default: none.
    pub cache_directory: Option<PathBuf>,
    /// Longest time in milliseconds that a partition waits for a schema, default 60,000. After
    /// that its records with this schema count as undecodable.
    pub wait_ms: u64,
    /// Limit of one request in milliseconds, default 10,000.
    pub request_timeout_ms: u64,
    /// Milliseconds until a schema that was not found is looked up again, default 30,000. The time
    /// doubles with each failure, up to 20 times.
    pub retry_after_ms: u64,
}

impl Default for SchemaRegistryConfig {
    fn default() -> Self {
        Self {
            cache_directory: None,
            wait_ms: 60_000,
            request_timeout_ms: 10_000,
            retry_after_ms: 30_000,
        }
    }
}

/// Longest configurable time, 24 hours.
const MILLISECONDS_MAX: u64 = 24 * 3_600_000;

/// Reason why the settings of a registry cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("schema_registry.{key} = {value}: use {min} to {MILLISECONDS_MAX}")]
    Milliseconds {
        key: &'static str,
        value: u64,
        min: u64,
    },
    #[error("encryption of the schema registry: {0}")]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Client(#[from] weir_kafka::registry::RegistryError),
    #[error("schema_registry.cache_directory = \"{path}\": {error}")]
    Directory { path: String, error: std::io::Error },
}

impl SchemaRegistryConfig {
    fn check(&self) -> Result<(), RegistryError> {
        for (key, value, min) in [
            ("wait_ms", self.wait_ms, 0),
            ("request_timeout_ms", self.request_timeout_ms, 1),
            ("retry_after_ms", self.retry_after_ms, 1),
        ] {
            if !(min..=MILLISECONDS_MAX).contains(&value) {
                return Err(RegistryError::Milliseconds { key, value, min });
            }
        }
        Ok(())
    }
}

/// Schema registry of one connection, ready for lookups.
#[derive(Debug)]
pub struct ConnectionRegistry {
    /// Client, also for requests outside of lookups.
    pub client: RegistryClient,
    limits: LookupLimits,
    files: Option<FileCache>,
}

impl ConnectionRegistry {
    /// Prepares the registry of a connection. Returns `None` if no expression needs one. `dir` is
    /// the directory of `gateway.toml`.
    pub fn of(
        connection: &ConnectionConfig,
        config: &SchemaRegistryConfig,
        dir: &Path,
    ) -> Result<Option<Self>, RegistryError> {
        config.check()?;
        let Some(registry) = connection.registry() else {
            return Ok(None);
        };
        let client = RegistryClient::new(&settings(registry, config)?)?;
        let files = config.cache_directory.as_deref().map(|cache| {
            let path = dir.join(cache);
            FileCache::open(&path, client.url()).map_err(|error| RegistryError::Directory {
                path: path.display().to_string(),
                error,
            })
        });
        Ok(Some(Self {
            files: files.transpose()?,
            client,
            limits: LookupLimits {
                wait: Duration::from_millis(config.wait_ms),
                retry_after: Duration::from_millis(config.retry_after_ms),
            },
        }))
    }

    /// Starts lookups that fill `table`.
    pub fn start(&self, table: &Arc<SchemaTable>) -> std::io::Result<Lookups> {
        let sink = Arc::new(SchemaLoader::new(Arc::clone(table)));
        Lookups::start(self.client.clone(), self.files.clone(), self.limits, sink)
    }
}

fn settings(
    registry: &RegistryConfig,
    config: &SchemaRegistryConfig,
) -> Result<RegistrySettings, RegistryError> {
    let login = match &registry.login {
        weir_mapping::RegistryLogin::None => RegistryLogin::None,
        weir_mapping::RegistryLogin::Basic { username, password } => RegistryLogin::Basic(Login {
            username: username.clone(),
            password: Secret::new(password),
        }),
        weir_mapping::RegistryLogin::Azure {
            tenant_id,
            client_id,
            client_secret,
        } => RegistryLogin::Azure {
            authority: std::env::var(AZURE_AUTHORITY).ok(),
            tenant_id: tenant_id.clone(),
            client_id: client_id.clone(),
            client_secret: Secret::new(client_secret),
        },
    };
    Ok(RegistrySettings {
        url: registry.url.clone(),
        login,
        tls: tls(&registry.properties)?,
        request_timeout: Duration::from_millis(config.request_timeout_ms),
    })
}

/// Reads the stores that `ssl.*` properties name, as for a cluster.
fn tls(properties: &[(String, String)]) -> Result<Option<TlsSettings>, SettingsError> {
    if properties.is_empty() {
        return Ok(None);
    }
    let mut properties = properties.to_vec();
    properties.push(("security.protocol".to_owned(), "SSL".to_owned()));
    // The servers are not used.
    let settings = KafkaSettings::from_properties(Some("registry:443"), &properties)?;
    Ok(settings.security.tls.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_limits() {
        let invalid = |change: fn(&mut SchemaRegistryConfig)| {
            let mut config = SchemaRegistryConfig::default();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        let text = invalid(|config| config.wait_ms = u64::MAX);
        assert!(text.starts_with("schema_registry.wait_ms = 18446744073709551615: use 0 to"));
        let text = invalid(|config| config.request_timeout_ms = 0);
        assert!(text.contains("request_timeout_ms = 0: use 1 to"), "{text}");
        assert!(SchemaRegistryConfig::default().check().is_ok());
    }
}
