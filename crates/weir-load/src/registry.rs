//! Registers schemas at a Confluent-compatible registry.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use weir_kafka::KafkaSettings;
use weir_kafka::registry::{RegistryClient, RegistryLogin, RegistrySettings};
use weir_security::{Login, Secret};

use crate::error::{LoadError, Result};

/// Options of a schema registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RegistryArgs {
    /// URL of a Confluent-compatible schema registry
    ///
    /// The schema is registered under TOPIC-value, and each value names it.
    #[arg(long, value_name = "URL")]
    pub registry: Option<String>,
    /// Properties of the registry client: login and encryption
    ///
    /// basic.auth.user.info and ssl.* as in Confluent's clients, with or without the prefix
    /// schema.registry.
    #[arg(long, value_name = "FILE", requires = "registry")]
    pub registry_config: Option<PathBuf>,
}

/// Registers a schema and returns its id.
///
/// # Errors
/// The properties are invalid, or the registry does not accept the schema.
pub(crate) fn register(args: &RegistryArgs, subject: &str, kind: &str, text: &str) -> Result<i32> {
    let settings = settings(args)?;
    let client = RegistryClient::new(&settings)?;
    Ok(client.register(subject, kind, text)?)
}

fn settings(args: &RegistryArgs) -> Result<RegistrySettings> {
    let mut settings = RegistrySettings {
        url: args.registry.clone().unwrap_or_default(),
        login: RegistryLogin::None,
        tls: None,
        request_timeout: REQUEST_TIMEOUT,
    };
    if let Some(path) = &args.registry_config {
        read_properties(path, &mut settings)?;
    }
    Ok(settings)
}

fn read_properties(path: &Path, settings: &mut RegistrySettings) -> Result<()> {
    let mut encryption = Vec::new();
    for (full, value) in KafkaSettings::read_properties(path)? {
        let name = full.strip_prefix(PREFIX).unwrap_or(&full);
        let invalid = |reason: &str| {
            let place = format!("{} in {}", full, path.display());
            LoadError::option("--registry-config", &place, reason)
        };
        match name {
            "basic.auth.user.info" => {
                let login = value.split_once(':');
                let (username, password) =
                    login.ok_or_else(|| invalid("expected USER:PASSWORD"))?;
                settings.login = RegistryLogin::Basic(Login {
                    username: username.to_owned(),
                    password: Secret::new(password),
                });
            }
            "basic.auth.credentials.source" if value == "USER_INFO" => {}
            "basic.auth.credentials.source" => {
                return Err(invalid("only USER_INFO is supported"));
            }
            // The option names the registry.
            "url" => {}
            _ if name.starts_with("ssl.") => encryption.push((name.to_owned(), value)),
            _ => {
                let reason = "unknown; use basic.auth.user.info and ssl.*";
                return Err(invalid(reason));
            }
        }
    }
    if let Some((name, _)) = encryption.first() {
        if !settings.url.starts_with("https://") {
            let place = format!("{name} in {}", path.display());
            let reason = "the registry's URL is not one of https; change it or omit the property";
            return Err(LoadError::option("--registry-config", &place, reason));
        }
        encryption.push(("security.protocol".to_owned(), "SSL".to_owned()));
        // The servers are not used.
        let parsed = KafkaSettings::from_properties(Some("registry:1"), &encryption)?;
        settings.tls = parsed.security.tls.clone();
    }
    Ok(())
}

const PREFIX: &str = "schema.registry.";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
