//! Creates, grows, deletes and looks up topics. Calls block, at most until a timeout.

mod batch;
mod view;

use std::time::{Duration, Instant};

use pollster::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult,
};
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use thiserror::Error;

use crate::properties;
use view::TopicView;

/// Reason why an administrative call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum AdminError {
    #[error("admin client configuration rejected: {reason}")]
    Rejected { reason: String },
    #[error(
        "no response from a Kafka broker at \"{bootstrap_servers}\" within {timeout_ms} ms \
         ({reason}): check the address and that the broker is running"
    )]
    Unreachable {
        bootstrap_servers: String,
        timeout_ms: u128,
        reason: String,
    },
    #[error("cannot {action} topic \"{topic}\": {reason}")]
    Topic {
        action: &'static str,
        topic: String,
        reason: String,
    },
    /// Kafka accepted the request, but not all brokers reported the result before the timeout.
    #[error("topic \"{topic}\" is not {wanted} on every broker after {timeout_ms} ms: {last}")]
    NotSettled {
        topic: String,
        wanted: &'static str,
        timeout_ms: u128,
        last: String,
    },
}

/// Administrative connection to a cluster.
pub struct Admin {
    client: AdminClient<LogOnly>,
    bootstrap_servers: String,
    timeout: Duration,
}

impl Admin {
    /// Connects and waits for the response of a broker. `timeout` also bounds each later call.
    pub fn connect(bootstrap_servers: &str, timeout: Duration) -> Result<Self, AdminError> {
        let client_config = properties::base(bootstrap_servers, "weir-admin");
        let client = AdminClient::from_config_and_context(&client_config, LogOnly);
        let client = client.map_err(|error| AdminError::Rejected {
            reason: error.to_string(),
        })?;
        let admin = Self {
            client,
            bootstrap_servers: bootstrap_servers.to_owned(),
            timeout,
        };
        admin.metadata(None)?;
        Ok(admin)
    }

    /// Returns the node ids of all brokers in ascending order.
    pub fn broker_ids(&self) -> Result<Vec<i32>, AdminError> {
        let metadata = self.metadata(None)?;
        let brokers = metadata.brokers().iter();
        let mut ids: Vec<_> = brokers.map(rdkafka::metadata::MetadataBroker::id).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Returns the number of partitions, or `None` if the topic does not exist.
    pub fn partitions(&self, topic: &str) -> Result<Option<usize>, AdminError> {
        let metadata = self.metadata(Some(topic))?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Ok(None);
        };
        match found.error().map(RDKafkaErrorCode::from) {
            None => Ok(Some(found.partitions().len())),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                Ok(None)
            }
            Some(code) => Err(topic_error("look up", topic, code.to_string())),
        }
    }

    /// Returns `true` if the topic exists.
    pub fn topic_exists(&self, topic: &str) -> Result<bool, AdminError> {
        Ok(self.partitions(topic)?.is_some())
    }

    /// Creates a topic and waits until every broker reports a leader for each partition.
    ///
    /// # Errors
    /// Also if the topic exists.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        replication: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), AdminError> {
        let replication = TopicReplication::Fixed(replication);
        let mut topic = NewTopic::new(name, partitions, replication);
        topic.config = configs.to_vec();
        let response = block_on(self.client.create_topics([&topic], &self.options()));
        check("create", name, response)?;
        self.wait_leaders(name, usize::try_from(partitions).unwrap_or(1))
    }

    /// Raises the number of partitions to `total` and waits as [`create_topic`](Self::create_topic)
    /// does.
    pub fn grow_topic(&self, name: &str, total: usize) -> Result<(), AdminError> {
        let wanted = NewPartitions::new(name, total);
        let response = block_on(self.client.create_partitions([&wanted], &self.options()));
        check("grow", name, response)?;
        self.wait_leaders(name, total)
    }

    /// Deletes a topic and waits until no broker reports it.
    pub fn delete_topic(&self, name: &str) -> Result<(), AdminError> {
        let response = block_on(self.client.delete_topics(&[name], &self.options()));
        check("delete", name, response)?;
        self.wait_everywhere(name, "deleted", |view| *view == TopicView::Missing)
    }

    fn wait_leaders(&self, name: &str, partitions: usize) -> Result<(), AdminError> {
        let led = |view: &TopicView| match view {
            TopicView::Led { with_leader, .. } => *with_leader >= partitions,
            TopicView::Missing | TopicView::Failed(_) => false,
        };
        self.wait_everywhere(name, "ready", led)
    }

    /// Requests the topic's state from every broker until all satisfy `done`, because a client may
    /// connect to any of them.
    fn wait_everywhere(
        &self,
        name: &str,
        wanted: &'static str,
        done: impl Fn(&TopicView) -> bool,
    ) -> Result<(), AdminError> {
        let deadline = Instant::now() + self.timeout;
        let mut pause = POLL_MIN;
        loop {
            let metadata = self.metadata(None)?;
            let mut pending = Vec::new();
            for broker in metadata.brokers() {
                let (id, host, port) = (broker.id(), broker.host(), broker.port());
                match view::request_view(host, port, name, VIEW_TIMEOUT) {
                    Ok(view) if done(&view) => {}
                    Ok(view) => pending.push(format!("broker {id}: {view}")),
                    Err(error) => pending.push(format!("broker {id}: {host}:{port}: {error}")),
                }
            }
            if pending.is_empty() && !metadata.brokers().is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(AdminError::NotSettled {
                    topic: name.to_owned(),
                    wanted,
                    timeout_ms: self.timeout.as_millis(),
                    last: pending.join(", "),
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    fn metadata(&self, topic: Option<&str>) -> Result<Metadata, AdminError> {
        let client = self.client.inner();
        client
            .fetch_metadata(topic, self.timeout)
            .map_err(|error| AdminError::Unreachable {
                bootstrap_servers: self.bootstrap_servers.clone(),
                timeout_ms: self.timeout.as_millis(),
                reason: error.to_string(),
            })
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new()
            .request_timeout(Some(self.timeout))
            .operation_timeout(Some(self.timeout))
    }
}

struct LogOnly;

impl ClientContext for LogOnly {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        properties::log_line(level, facility, message);
    }

    fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason, "admin client error");
    }
}

fn check(
    action: &'static str,
    topic: &str,
    response: KafkaResult<Vec<TopicResult>>,
) -> Result<(), AdminError> {
    let results = response.map_err(|error| topic_error(action, topic, error.to_string()))?;
    results.into_iter().try_for_each(|result| match result {
        Ok(_) => Ok(()),
        Err((name, code)) => Err(topic_error(action, &name, code.to_string())),
    })
}

fn topic_error(action: &'static str, topic: &str, reason: String) -> AdminError {
    AdminError::Topic {
        action,
        topic: topic.to_owned(),
        reason,
    }
}

const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(200);
const VIEW_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_broker_error_names_address_and_timeout() {
        let Err(error) = Admin::connect("127.0.0.1:1", Duration::from_millis(200)) else {
            panic!("nothing listens on port 1");
        };
        let text = error.to_string();
        let start = "no response from a Kafka broker at \"127.0.0.1:1\" within 200 ms (";
        assert!(text.starts_with(start), "{text}");
    }
}
