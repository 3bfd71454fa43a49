//! The client that a configuration selects.

use std::sync::Arc;

use super::config::{IngestConfig, ReaderChoice, ReaderKind};
use super::error::SourceError;
use super::lean::LeanClient;
use super::librdkafka::LibrdkafkaClient;
use super::partition_client::PartitionClient;
use super::state::IngestState;

/// Client that reads with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SelectedReader {
    /// The client.
    pub kind: ReaderKind,
    /// Setting that only librdkafka supports, if it is the reason.
    pub reason: Option<String>,
}

impl SelectedReader {
    /// Selects the client that reads with a configuration, whose own `reader` is ignored.
    ///
    /// # Errors
    /// The client would reject the configuration.
    pub(super) fn new(config: &IngestConfig, choice: ReaderChoice) -> Result<Self, SourceError> {
        let reason = match choice {
            ReaderChoice::Librdkafka => None,
            ReaderChoice::Auto | ReaderChoice::Lean => match LeanClient::check(config) {
                Ok(()) => return Ok(ReaderKind::Lean.into()),
                Err(error) => match error.only_in_librdkafka() {
                    Some(setting) if choice == ReaderChoice::Auto => Some(setting),
                    _ => return Err(error),
                },
            },
        };
        LibrdkafkaClient::check(config)?;
        Ok(Self {
            kind: ReaderKind::Librdkafka,
            reason,
        })
    }
}

impl From<ReaderKind> for SelectedReader {
    fn from(kind: ReaderKind) -> Self {
        Self { kind, reason: None }
    }
}

#[derive(Clone)]
pub(super) enum ClientKind {
    Librdkafka(Arc<LibrdkafkaClient>),
    Lean(Arc<LeanClient>),
}

impl ClientKind {
    pub(super) fn new(
        config: &IngestConfig,
        shared: &Arc<IngestState>,
    ) -> Result<Self, SourceError> {
        Ok(match config.reader {
            ReaderKind::Librdkafka => {
                Self::Librdkafka(Arc::new(LibrdkafkaClient::new(config, shared)?))
            }
            ReaderKind::Lean => Self::Lean(Arc::new(LeanClient::new(config, shared)?)),
        })
    }

    /// Returns the operations that all clients have.
    pub(super) fn partitions(&self) -> &dyn PartitionClient {
        match self {
            Self::Librdkafka(client) => &**client,
            Self::Lean(client) => &**client,
        }
    }

    /// Returns the operations for another thread.
    pub(super) fn shared_partitions(&self) -> Arc<dyn PartitionClient> {
        match self {
            Self::Librdkafka(client) => Arc::clone(client) as _,
            Self::Lean(client) => Arc::clone(client) as _,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_security::KafkaSettings;

    fn select(
        properties: &[(&str, &str)],
        choice: ReaderChoice,
    ) -> Result<(ReaderKind, Option<String>), String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let list: Vec<_> = properties.iter().map(owned).collect();
        let config = IngestConfig {
            kafka: KafkaSettings::from_properties(Some("a:1"), &list).expect("valid"),
            topics: vec!["t".to_owned()],
            ..IngestConfig::default()
        };
        let selected = SelectedReader::new(&config, choice);
        let selected = selected.map_err(|error| error.to_string())?;
        Ok((selected.kind, selected.reason))
    }

    #[test]
    fn lean_client_reads_unless_only_librdkafka_supports_a_setting() {
        use ReaderChoice::{Auto, Lean, Librdkafka};
        assert_eq!(select(&[], Auto), Ok((ReaderKind::Lean, None)));
        assert_eq!(select(&[], Lean), Ok((ReaderKind::Lean, None)));
        let known = [("client.rack", "r")];
        assert_eq!(select(&known, Auto), Ok((ReaderKind::Lean, None)));
        let other = Ok((ReaderKind::Librdkafka, None));
        assert_eq!(select(&known, Librdkafka), other);

        let only_librdkafka = [("queued.min.messages", "1")];
        let named = Some("queued.min.messages".to_owned());
        let other = Ok((ReaderKind::Librdkafka, named));
        assert_eq!(select(&only_librdkafka, Auto), other);
        assert!(select(&only_librdkafka, Lean).is_err());
    }

    #[test]
    fn kerberos_selects_librdkafka() {
        let kerberos = [
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "GSSAPI"),
            ("sasl.kerberos.service.name", "kafka"),
        ];
        let selected = select(&kerberos, ReaderChoice::Auto);
        if cfg!(feature = "gssapi") {
            let (kind, reason) = selected.expect("built with Kerberos");
            assert_eq!(kind, ReaderKind::Librdkafka);
            assert!(reason.is_some_and(|it| it.contains("GSSAPI")));
        } else {
            selected.expect_err("not built with Kerberos");
        }
        let error = select(&kerberos, ReaderChoice::Lean).expect_err("no Kerberos");
        assert!(error.contains("GSSAPI"), "{error}");
    }

    #[test]
    fn wrong_values_and_unknown_properties_select_nothing() {
        for (name, value) in [("fetch.min.bytes", "many"), ("no.such.property", "1")] {
            let error = select(&[(name, value)], ReaderChoice::Auto).expect_err(name);
            assert!(error.contains(name), "{error}");
        }
    }
}
