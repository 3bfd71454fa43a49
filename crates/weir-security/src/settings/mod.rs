//! Settings of a Kafka cluster: servers, encryption, login and client properties, read from the
//! property names of Kafka's Java client or of librdkafka.

pub mod ciphers;
mod encryption;
mod error;
mod jaas;
mod librdkafka;
mod login;
mod names;
mod properties_file;
mod read;
mod read_again;
mod security;
mod store_files;
mod values;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use error::{JaasError, SettingsError};
pub use security::{
    KerberosSettings, Login, SaslSettings, ScramHash, Security, TlsSettings, TlsVersion,
};
pub use store_files::StoreFiles;

/// How to reach a cluster: servers, encryption, login and client properties.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    /// Comma-separated `host:port` list.
    pub bootstrap_servers: String,
    /// Encryption and login.
    pub security: Arc<Security>,
    /// Client properties under librdkafka's names, without those of encryption and login.
    pub properties: Vec<(String, String)>,
}

impl KafkaSettings {
    /// Returns the settings of a cluster without encryption and login.
    pub fn plaintext(bootstrap_servers: &str) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.to_owned(),
            security: Arc::default(),
            properties: Vec::new(),
        }
    }

    /// Reads properties under Kafka's names (those of the Java client or of librdkafka), including
    /// the key and trust stores they name. `bootstrap_servers` has precedence over the property.
    ///
    /// # Errors
    /// A store cannot be read, or a value is unknown, contradictory or supported by no TLS library.
    pub fn from_properties(
        bootstrap_servers: Option<&str>,
        properties: &[(String, String)],
    ) -> Result<Self, SettingsError> {
        let (bootstrap_servers, security, properties) =
            read::settings(bootstrap_servers, properties)?;
        Ok(Self {
            bootstrap_servers,
            security: security.into(),
            properties,
        })
    }

    /// Reads a Java-style properties file: escapes, continuation lines, and `${env:NAME}` and
    /// `${file:PATH}` in values.
    ///
    /// # Errors
    /// The file cannot be read, has an invalid line, or names a missing variable or file.
    pub fn read_properties(path: &Path) -> Result<Vec<(String, String)>, SettingsError> {
        properties_file::read(path)
    }

    /// Expands `${env:NAME}` and `${file:PATH}` in the value of a property.
    ///
    /// # Errors
    /// The variable or file does not exist.
    pub fn expand_variables(name: &str, value: &str) -> Result<String, SettingsError> {
        properties_file::expand_value(name, value)
    }

    /// Adds a client property that replaces the user's.
    #[must_use]
    pub fn with_property(mut self, name: &str, value: impl ToString) -> Self {
        self.properties.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a client property that the user's replaces.
    #[must_use]
    pub fn with_default_property(mut self, name: &str, value: impl ToString) -> Self {
        let default = (name.to_owned(), value.to_string());
        self.properties.insert(0, default);
        self
    }

    /// Returns the value of a client property.
    pub fn property(&self, name: &str) -> Option<&str> {
        let mut named = self.properties.iter().rev();
        let found = named.find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.properties.iter().map(|(name, _)| name);
        f.debug_struct("KafkaSettings")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("security", &self.security)
            // A value may be a secret of a property that Weir does not know.
            .field("properties", &names.collect::<Vec<_>>())
            .finish()
    }
}

/// Reads text as a JAAS line, and as a properties file whose entries become settings. Entries that
/// name files are left out.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(text: &str) {
    let _ = jaas::JaasLine::parse(text);
    let Ok(lines) = properties_file::parse(text) else {
        return;
    };
    let entries = lines.into_iter().map(|(_, name, value)| (name, value));
    let names_file = |name: &str| name.ends_with(".location") || name.ends_with("keytab");
    let entries: Vec<_> = entries.filter(|(name, _)| !names_file(name)).collect();
    if entries
        .iter()
        .any(|(_, value)| value.contains("ssl.truststore.location"))
    {
        return;
    }
    if let Ok(settings) = KafkaSettings::from_properties(Some("localhost:9092"), &entries) {
        let _ = settings.security.librdkafka_properties();
    }
}

#[cfg(test)]
mod tests;
