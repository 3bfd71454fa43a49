//! librdkafka configuration and callbacks of ingest.

use std::sync::Arc;

use rdkafka::ClientConfig;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;
use weir_security::Security;

use super::config::{IngestConfig, OWNED, check_topics};
use super::error::SourceError;
use super::state::IngestState;
use crate::properties;
use crate::refusals::Refusals;

/// Receiver of librdkafka's logs, errors and statistics.
pub(super) struct IngestContext {
    shared: Arc<IngestState>,
    refusals: Refusals,
    security: Arc<Security>,
}

impl ClientContext for IngestContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if let Some(hint) = self.refusals.note_log(facility, message) {
            self.shared.note_hint(hint);
        }
        if let Some(unreachable) = self.refusals.unreachable() {
            self.shared.note_unreachable(unreachable);
        }
        properties::log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            // The reader receives this error too and requests a check of the position.
            return;
        }
        if let Some(refusal) = self.refusals.note(&error, reason) {
            return self.shared.note_refusal(refusal);
        }
        let down = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        self.shared.note_error(format!("{error}: {reason}"));
        if down {
            self.shared.brokers_lost();
        }
    }

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        properties::oauth_token(&self.security)
    }

    fn stats(&self, statistics: Statistics) {
        for (topic, topic_statistics) in &statistics.topics {
            for (partition, partition_statistics) in &topic_statistics.partitions {
                // With `read_committed`, the last stable offset is the end.
                let end = if partition_statistics.ls_offset >= 0 {
                    partition_statistics.ls_offset
                } else {
                    partition_statistics.hi_offset
                };
                let end = (partition_statistics.leader >= 0 && end >= 0).then_some(end);
                self.shared.note_fetched_end(topic, *partition, end);
            }
        }
    }
}

impl ConsumerContext for IngestContext {}

pub(super) fn consumer(
    config: &IngestConfig,
    shared: &Arc<IngestState>,
) -> Result<BaseConsumer<IngestContext>, SourceError> {
    let context = IngestContext {
        shared: Arc::clone(shared),
        refusals: Refusals::new(&config.kafka),
        security: Arc::clone(&config.kafka.security),
    };
    Ok(BaseConsumer::from_config_and_context(
        &client_config(config)?,
        context,
    )?)
}

/// Returns the configuration of librdkafka, which has not checked names and values yet.
pub(super) fn client_config(config: &IngestConfig) -> Result<ClientConfig, SourceError> {
    check_topics(config)?;
    let mut client_config = properties::base(&config.kafka, &config.client_id)?;
    let group = config.group_id.as_deref().unwrap_or(&config.client_id);
    client_config
        .set("group.id", if group.is_empty() { "weir" } else { group })
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "false")
        // This crate decides where to continue, because it depends on why the position is invalid.
        .set("auto.offset.reset", "error")
        .set("allow.auto.create.topics", "false");
    for (key, value) in TUNING {
        client_config.set(key, value);
    }
    properties::apply(&mut client_config, &config.kafka, &OWNED)?;
    Ok(client_config)
}

/// Defaults that the user may override.
const TUNING: [(&str, &str); 9] = [
    // A fetch returns as soon as there is one byte, so this time only delays partitions that are
    // added while a fetch is pending.
    ("fetch.wait.max.ms", "100"),
    ("fetch.min.bytes", "1"),
    // The default of Kafka's own clients; librdkafka's is `read_committed`.
    ("isolation.level", "read_uncommitted"),
    ("fetch.error.backoff.ms", "100"),
    // Bounds of the queue in memory. librdkafka stops fetching above either bound and checks again
    // after the backoff. The default backoff of one second would add a second of latency.
    ("queued.min.messages", "50000"),
    ("queued.max.messages.kbytes", "32768"),
    ("fetch.queue.backoff.ms", "5"),
    // Update interval of the cached end offsets that `lag` reports.
    ("statistics.interval.ms", "1000"),
    ("socket.timeout.ms", "15000"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use weir_security::KafkaSettings;

    fn config(topics: &[&str], properties: &[(&str, &str)]) -> IngestConfig {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let kafka = KafkaSettings {
            properties: properties.iter().map(owned).collect(),
            ..KafkaSettings::plaintext("127.0.0.1:1")
        };
        IngestConfig {
            kafka,
            client_id: "test".to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            ..IngestConfig::default()
        }
    }

    fn start_error(config: &IngestConfig) -> String {
        let shared = Arc::new(IngestState::new(&config.topics, config.pause));
        match consumer(config, &shared) {
            Ok(_) => panic!("accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn invalid_config_error_names_property() {
        assert_eq!(
            start_error(&config(&[], &[])),
            "no topic configured: specify at least one"
        );
        assert!(
            start_error(&config(&["a/b"], &[])).starts_with("\"a/b\" is not a valid topic name")
        );
        let owned = start_error(&config(&["t"], &[("enable.auto.commit", "true")]));
        assert!(owned.contains("enable.auto.commit"), "{owned}");
        let unknown = start_error(&config(&["t"], &[("no.such.key", "1")]));
        assert!(unknown.contains("no.such.key"), "{unknown}");
        let bad = start_error(&config(&["t"], &[("fetch.min.bytes", "many")]));
        assert!(bad.contains("fetch.min.bytes"), "{bad}");
    }

    #[test]
    fn tuning_is_valid_and_overridable() {
        let config = config(&["t"], &[("fetch.wait.max.ms", "7")]);
        let shared = Arc::new(IngestState::new(&config.topics, config.pause));
        assert!(consumer(&config, &shared).is_ok());
    }
}
