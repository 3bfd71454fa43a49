//! Topics of the brokers that match the patterns of a connection (`map.regex.enable`).

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;
use weir_gateway::{Cluster, GatewayConfig};
use weir_kafka::peek::{PeekError, list_topics};
use weir_mapping::ConnectionConfig;

use crate::cmd::text_table::one_line;
use crate::exit::Exit;

/// Maximum number of topics of a pattern that are shown as text.
const SHOWN_MAX: usize = 20;

/// Patterns of one connection with the topics that match them.
#[derive(Serialize)]
pub(super) struct PatternFindings {
    connection: String,
    brokers: String,
    patterns: Vec<MatchingTopics>,
    #[serde(serialize_with = "serialize_error")]
    pub(super) error: Option<(Exit, String)>,
}

#[derive(Serialize)]
struct MatchingTopics {
    pattern: String,
    topics: Vec<String>,
}

/// Asks the brokers of all enabled connections with patterns.
pub(super) fn check(config: &GatewayConfig, timeout: Duration) -> Vec<PatternFindings> {
    let connections = config.connections.iter().zip(&config.clusters);
    let enabled = connections.filter(|(connection, _)| connection.enabled);
    let checked = enabled.filter_map(|(connection, cluster)| of(connection, cluster, timeout));
    checked.collect()
}

/// Asks the brokers of a connection of this configuration, if it has patterns.
pub(super) fn of_connection(
    config: &GatewayConfig,
    connection: &ConnectionConfig,
    timeout: Duration,
) -> Option<PatternFindings> {
    let mut clusters = config.connections.iter().zip(&config.clusters);
    let (_, cluster) = clusters.find(|(one, _)| one.name == connection.name)?;
    of(connection, cluster, timeout)
}

fn of(
    connection: &ConnectionConfig,
    cluster: &Cluster,
    timeout: Duration,
) -> Option<PatternFindings> {
    let mapping = &connection.mapping;
    if !mapping.has_patterns() {
        return None;
    }
    let mut findings = PatternFindings {
        connection: connection.name.clone(),
        brokers: cluster.kafka.bootstrap_servers.clone(),
        patterns: Vec::new(),
        error: None,
    };
    match list_topics(&cluster.kafka, timeout) {
        Ok(topics) => {
            let patterns = mapping.topics().map(|pattern| {
                let is_match =
                    |topic: &&String| mapping.patterns_of(topic).any(|one| one == pattern);
                MatchingTopics {
                    pattern: pattern.to_owned(),
                    topics: topics.iter().filter(is_match).cloned().collect(),
                }
            });
            findings.patterns = patterns.collect();
        }
        Err(error) => findings.error = Some((exit(&error), error.to_string())),
    }
    Some(findings)
}

/// Returns the exit code after an error.
pub(super) fn exit(error: &PeekError) -> Exit {
    match error {
        PeekError::Kafka(_) | PeekError::Refused(_) => Exit::Unreachable,
        _ => Exit::Usage,
    }
}

impl PatternFindings {
    /// Prints the findings of `weir gateway check`.
    pub(super) fn print(&self) {
        let (name, brokers) = (&self.connection, &self.brokers);
        println!("\ntopic patterns of connection {name}: {brokers}");
        self.print_lines();
    }

    /// Prints a line for each pattern.
    pub(super) fn print_lines(&self) {
        for MatchingTopics { pattern, topics } in &self.patterns {
            let shown: Vec<_> = topics.iter().take(SHOWN_MAX).map(String::as_str).collect();
            let shown = one_line(&shown.join(", "));
            let text = match topics.len() {
                0 => "matches no topic".to_owned(),
                1 => format!("matches {shown}"),
                count if count > SHOWN_MAX => format!("matches {count} topics: {shown}, ..."),
                count => format!("matches {count} topics: {shown}"),
            };
            println!("  pattern {pattern} {text}");
        }
        if let Some((_, error)) = &self.error {
            println!("  topics not listed: {error}");
        }
    }

    /// Returns the patterns and topics.
    pub(super) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Serializes the text of an error.
pub(super) fn serialize_error<S: Serializer>(
    error: &Option<(Exit, String)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    error.as_ref().map(|(_, text)| text).serialize(serializer)
}
