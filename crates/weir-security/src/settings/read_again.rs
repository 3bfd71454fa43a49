//! Reads stores of certificates again, because they are replaced while a client runs.

use super::encryption;
use super::error::SettingsError;
use super::security::{Security, TlsSettings};

impl TlsSettings {
    /// Reads the stores again, with the passwords of the first time. Returns `None` if their
    /// content is the same or the settings name no files.
    ///
    /// # Errors
    /// A store cannot be read.
    pub fn read_again(&self) -> Result<Option<Self>, SettingsError> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let read = encryption::read(&self.files.values())?;
        Ok((read != *self).then_some(read))
    }
}

impl Security {
    /// Reads key and trust stores again, see [`TlsSettings::read_again`]. The login is unchanged.
    ///
    /// # Errors
    /// A store cannot be read.
    pub fn read_again(&self) -> Result<Option<Self>, SettingsError> {
        let Some(tls) = &self.tls else {
            return Ok(None);
        };
        let read = tls.read_again()?;
        Ok(read.map(|tls| Self {
            tls: Some(tls),
            sasl: self.sasl.clone(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::KafkaSettings;

    fn fixture(name: &str) -> PathBuf {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
        crates.join("../weir-net/tests/tls").join(name)
    }

    fn security(properties: &[(&str, &str)]) -> Security {
        let owned = properties.iter();
        let owned: Vec<_> = owned
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let read = KafkaSettings::from_properties(Some("a:1"), &owned).expect("valid");
        Security::clone(&read.security)
    }

    #[test]
    fn replaced_trust_store_is_read_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = dir.path().join("trust.pem");
        fs::copy(fixture("ca.pem"), &store).expect("a file");
        let path = store.display().to_string();
        let security = security(&[
            ("security.protocol", "SSL"),
            ("ssl.truststore.type", "PEM"),
            ("ssl.truststore.location", &path),
            ("ssl.endpoint.identification.algorithm", ""),
        ]);
        assert_eq!(security.read_again(), Ok(None));
        let tls = security.tls.as_ref().expect("encryption");
        fs::copy(fixture("second.pem"), &store).expect("a file");
        let read = security.read_again().expect("readable").expect("changed");
        let again = read.tls.as_ref().expect("encryption");
        assert!(again.roots != tls.roots && !again.verify_hostname);
        assert_eq!(read.read_again(), Ok(None));
        fs::write(&store, "half a file").expect("a file");
        let error = read.read_again().expect_err("damaged").to_string();
        assert!(error.contains("ssl.truststore.location"), "{error}");
    }

    #[test]
    fn settings_without_files_are_not_read_again() {
        assert_eq!(Security::default().read_again(), Ok(None));
        let text = fs::read_to_string(fixture("ca.pem")).expect("a file");
        let inline = security(&[("security.protocol", "SSL"), ("ssl.ca.pem", &text)]);
        assert_eq!(inline.read_again(), Ok(None));
    }
}
