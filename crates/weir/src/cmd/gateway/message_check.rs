//! Topics of client messages (`[[message]]`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use weir_gateway::GatewayConfig;
use weir_kafka::peek::list_topics;

use super::topic_check;
use crate::cmd::text_table::one_line;
use crate::exit::Exit;

/// A rule for client messages with the state of its topic.
#[derive(Serialize)]
pub(super) struct MessageFindings {
    rule: String,
    connection: String,
    topic: String,
    /// `true` if the topic exists; absent if the brokers did not respond.
    exists: Option<bool>,
    #[serde(serialize_with = "topic_check::serialize_error")]
    pub(super) error: Option<(Exit, String)>,
}

/// Asks the brokers of the rules' connections, each once.
pub(super) fn check(config: &GatewayConfig, timeout: Duration) -> Vec<MessageFindings> {
    let mut listed = BTreeMap::new();
    let check = |(rule, connection, topic): (&str, &str, &str)| {
        let list = || {
            let mut clusters = config.connections.iter().zip(&config.clusters);
            let found = clusters.find(|(one, _)| one.name == connection);
            found.map(|(_, cluster)| {
                let topics = list_topics(&cluster.kafka, timeout);
                topics.map_err(|error| (topic_check::exit(&error), error.to_string()))
            })
        };
        let listed = listed.entry(connection.to_owned()).or_insert_with(list);
        let topics = listed.as_ref().and_then(|listed| listed.as_ref().ok());
        let error = listed.as_ref().and_then(|listed| listed.as_ref().err());
        MessageFindings {
            rule: rule.to_owned(),
            connection: connection.to_owned(),
            topic: topic.to_owned(),
            exists: topics.map(|topics| topics.iter().any(|one| one == topic)),
            error: error.cloned(),
        }
    };
    config.messages.topics().map(check).collect()
}

impl MessageFindings {
    /// Prints one line.
    pub(super) fn print(&self) {
        let (rule, connection, topic) = (&self.rule, &self.connection, &self.topic);
        let state = match (&self.error, self.exists) {
            (Some((_, error)), _) => format!("not checked: {}", one_line(error)),
            (None, Some(true)) => "exists".to_owned(),
            (None, _) => "does not exist: create it".to_owned(),
        };
        println!("\nmessage rule {rule}: topic {topic} of connection {connection}: {state}");
    }
}
