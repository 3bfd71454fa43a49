//! librdkafka settings and callbacks of ingest.

use std::sync::Arc;

use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;

use super::state::IngestState;
use super::{IngestConfig, SourceError};
use crate::properties;

/// Receives what librdkafka tells besides records.
pub(super) struct IngestContext {
    shared: Arc<IngestState>,
}

impl ClientContext for IngestContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        properties::log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            // The reader gets it too and has the position checked.
            return;
        }
        let down = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        self.shared.note_error(format!("{error}: {reason}"));
        if down {
            self.shared.brokers_lost();
        }
    }

    fn stats(&self, statistics: Statistics) {
        for (topic, figures) in &statistics.topics {
            for (partition, figures) in &figures.partitions {
                // Readers of committed data cannot get past the last stable offset.
                let end = if figures.ls_offset >= 0 {
                    figures.ls_offset
                } else {
                    figures.hi_offset
                };
                let end = (figures.leader >= 0 && end >= 0).then_some(end);
                self.shared.note_fetched_end(topic, *partition, end);
            }
        }
    }
}

impl ConsumerContext for IngestContext {}

/// Creates the consumer; nothing is assigned to it yet.
pub(super) fn consumer(
    config: &IngestConfig,
    shared: &Arc<IngestState>,
) -> Result<BaseConsumer<IngestContext>, SourceError> {
    check_topics(&config.topics)?;
    let mut settings = properties::base(&config.bootstrap_servers, &config.client_id);
    let group = config.group_id.as_deref().unwrap_or(&config.client_id);
    settings
        .set("group.id", if group.is_empty() { "weir" } else { group })
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "false")
        // Where to continue is decided by this crate: it depends on what became of the position.
        .set("auto.offset.reset", "error")
        .set("allow.auto.create.topics", "false");
    for (key, value) in TUNING {
        settings.set(key, value);
    }
    properties::apply(&mut settings, &config.properties, &OWNED)?;
    let context = IngestContext {
        shared: Arc::clone(shared),
    };
    BaseConsumer::from_config_and_context(&settings, context).map_err(|error| {
        SourceError::Refused {
            reason: error.to_string(),
        }
    })
}

fn check_topics(topics: &[String]) -> Result<(), SourceError> {
    if topics.is_empty() {
        return Err(SourceError::NoTopic);
    }
    for topic in topics {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if topic.is_empty() || topic.len() > 249 || !topic.bytes().all(legal) {
            return Err(SourceError::TopicName {
                topic: topic.clone(),
            });
        }
    }
    Ok(())
}

/// The guarantees of `SourceStatus::ready` and of lossless reading rest on these.
const OWNED: [&str; 8] = [
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "auto.offset.reset",
    "allow.auto.create.topics",
    "statistics.interval.ms",
    "group.id",
];

/// Defaults a user may override.
const TUNING: [(&str, &str); 8] = [
    // One byte is enough for an answer, so this wait only bounds how long a partition added to a
    // running fetch has to wait for its turn.
    ("fetch.wait.max.ms", "100"),
    ("fetch.min.bytes", "1"),
    ("fetch.error.backoff.ms", "100"),
    // What may wait in memory for `poll`: librdkafka stops fetching above either bound, and looks
    // again after the back-off, whose default of a second would be a second of latency.
    ("queued.min.messages", "50000"),
    ("queued.max.messages.kbytes", "32768"),
    ("fetch.queue.backoff.ms", "5"),
    // Source of the cached end offsets behind `lag`.
    ("statistics.interval.ms", "1000"),
    ("socket.timeout.ms", "15000"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn config(topics: &[&str], properties: &[(&str, &str)]) -> IngestConfig {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        IngestConfig {
            bootstrap_servers: "127.0.0.1:1".to_owned(),
            client_id: "test".to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            properties: properties.iter().map(owned).collect(),
            ..IngestConfig::default()
        }
    }

    fn refusal(config: &IngestConfig) -> String {
        let shared = Arc::new(IngestState::new(&config.topics, config.hold));
        match consumer(config, &shared) {
            Ok(_) => panic!("accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_their_name() {
        assert_eq!(
            refusal(&config(&[], &[])),
            "no topic to read: name at least one"
        );
        assert!(refusal(&config(&["a/b"], &[])).starts_with("\"a/b\" is no topic name"));
        let owned = refusal(&config(&["t"], &[("enable.auto.commit", "true")]));
        assert!(owned.contains("enable.auto.commit"), "{owned}");
        let unknown = refusal(&config(&["t"], &[("no.such.key", "1")]));
        assert!(unknown.contains("no.such.key"), "{unknown}");
        let bad = refusal(&config(&["t"], &[("fetch.min.bytes", "many")]));
        assert!(bad.contains("fetch.min.bytes"), "{bad}");
    }

    #[test]
    fn tuning_is_accepted_by_librdkafka_and_open_to_the_user() {
        let config = config(&["t"], &[("fetch.wait.max.ms", "7")]);
        let shared = Arc::new(IngestState::new(&config.topics, config.hold));
        assert!(consumer(&config, &shared).is_ok());
    }
}
