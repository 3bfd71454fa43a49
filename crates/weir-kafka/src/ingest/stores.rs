//! Stores of certificates that are replaced while a client runs. librdkafka reads certificates only
//! when a client is created, so the client is replaced.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;
use weir_security::Security;

use super::client;
use super::config::IngestConfig;
use super::error::SourceError;
use super::state::IngestState;

/// Stores of a source. They are read again after a TLS handshake has failed.
pub(super) struct Stores {
    config: IngestConfig,
    read_at: Option<Instant>,
    last_error: Option<String>,
}

impl Stores {
    pub(super) fn new(config: &IngestConfig) -> Self {
        Self {
            config: config.clone(),
            read_at: None,
            last_error: None,
        }
    }

    /// Reads the stores if a TLS handshake has failed, at most once per interval. If their content
    /// is new, notes it for a new client.
    pub(super) fn read_after_failure(&mut self, shared: &IngestState) {
        let is_recent = self.read_at.is_some_and(|at| at.elapsed() < INTERVAL);
        if is_recent || !shared.take_tls_failure() {
            return;
        }
        self.read_at = Some(Instant::now());
        match self.read() {
            Ok(security) => {
                self.last_error = None;
                if let Some(security) = security {
                    shared.note_security(security);
                }
            }
            Err(error) => {
                let error = error.to_string();
                if self.last_error.as_ref() != Some(&error) {
                    tracing::warn!(%error, "cannot read certificates again, kept current ones");
                    shared.note_error(format!("certificates: {error}"));
                }
                self.last_error = Some(error);
            }
        }
    }

    /// Returns encryption and login if a store has a new content with which a client can be
    /// created; a new certificate may not fit to the key that is not replaced yet.
    fn read(&mut self) -> Result<Option<Arc<Security>>, SourceError> {
        let Some(read) = self.config.kafka.security.read_again()? else {
            return Ok(None);
        };
        let security = Arc::new(read);
        let mut config = self.config.clone();
        config.kafka.security = Arc::clone(&security);
        let _client: BaseConsumer = client::client_config(&config)?.create()?;
        self.config = config;
        Ok(Some(security))
    }
}

/// Minimum time between two readings.
const INTERVAL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use weir_security::KafkaSettings;

    use super::*;
    use crate::connect_error::ConnectError;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../weir-net/tests/tls")
            .join(name)
    }

    #[test]
    fn stores_are_read_while_handshakes_fail() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = dir.path().join("trust.pem");
        fs::copy(fixture("ca.pem"), &store).expect("a file");
        let properties = [
            ("security.protocol".to_owned(), "SSL".to_owned()),
            ("ssl.ca.location".to_owned(), store.display().to_string()),
        ];
        let kafka = KafkaSettings::from_properties(Some("127.0.0.1:1"), &properties);
        let config = IngestConfig {
            kafka: kafka.expect("valid"),
            topics: vec!["t".to_owned()],
            ..IngestConfig::default()
        };
        let shared = IngestState::new(&config.topics, config.pause);
        let mut stores = Stores::new(&config);
        let read = |stores: &mut Stores| {
            stores.read_at = None;
            stores.read_after_failure(&shared);
            shared.take_security()
        };
        fs::copy(fixture("second.pem"), &store).expect("a file");
        assert_eq!(read(&mut stores), None, "no failure");
        let (broker, reason) = ("a:1".to_owned(), "unknown authority".to_owned());
        shared.note_refusal(ConnectError::Tls { broker, reason });
        assert!(read(&mut stores).is_some());
        assert_eq!(read(&mut stores), None, "the same content");
        fs::write(&store, "half").expect("a file");
        assert_eq!(read(&mut stores), None);
        assert!(stores.last_error.is_some());
        fs::copy(fixture("ca.pem"), &store).expect("a file");
        assert!(read(&mut stores).is_some(), "no broker has responded");
        assert_eq!(stores.last_error, None);
        shared.note_probe(true);
        fs::copy(fixture("second.pem"), &store).expect("a file");
        assert_eq!(read(&mut stores), None, "a broker has responded");
    }
}
