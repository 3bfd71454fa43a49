//! The file from which drivers read encryption, login and other client properties. Commands, which
//! are logged, contain only its path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_kafka::{KafkaSettings, SettingsError, librdkafka_security};
use weir_security::{SaslSettings, TokenError};

/// Content of the file. Properties have librdkafka's names; certificates and keys are PEM texts.
/// There is no `Debug`, because values are secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFileContent {
    /// Properties by name.
    pub properties: BTreeMap<String, String>,
    /// File with the token of OAUTHBEARER.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

impl ClientFileContent {
    /// Returns the properties of a cluster.
    ///
    /// # Errors
    /// librdkafka, whose names are used, cannot do what the settings require.
    pub fn of(kafka: &KafkaSettings, token_file: Option<&Path>) -> Result<Self, SettingsError> {
        let others = kafka.properties.iter().cloned();
        let security = librdkafka_security(&kafka.security)?.into_iter();
        let security = security.map(|(name, value)| (name.to_owned(), value));
        Ok(Self {
            properties: others.chain(security).collect(),
            token_file: token_file.map(Path::to_owned),
        })
    }

    /// Returns the token of the settings, if the mechanism uses one. Drivers get one token for the
    /// whole run.
    ///
    /// # Errors
    /// No token is available.
    pub fn token(kafka: &KafkaSettings) -> Result<Option<String>, TokenError> {
        let token = match &kafka.security.sasl {
            Some(SaslSettings::OAuthBearer(source)) => source.token()?,
            Some(SaslSettings::AwsMskIam(source)) => source.token()?,
            _ => return Ok(None),
        };
        Ok(Some(token.token.reveal().to_owned()))
    }

    /// Returns the text of the file.
    pub fn to_json(&self) -> String {
        // Invariant: texts can be serialized.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read or is not valid.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_round_trips() {
        let kafka = KafkaSettings::plaintext("a:1").with_property("client.rack", "r");
        let content = ClientFileContent::of(&kafka, Some(Path::new("/t"))).expect("plaintext");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("client.json");
        std::fs::write(&path, content.to_json()).expect("a file");
        let read = ClientFileContent::read(&path).expect("valid");
        assert!(read == content && read.properties["client.rack"] == "r");
        assert_eq!(ClientFileContent::token(&kafka), Ok(None));
        assert!(ClientFileContent::read(dir.path()).is_err());
    }
}
