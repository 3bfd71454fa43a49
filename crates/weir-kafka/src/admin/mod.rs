//! Topics of a cluster: create, grow, delete, look up. Calls block and end by a deadline.

mod batch;
mod view;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

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

/// Why an administrative call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdminError {
    /// librdkafka refused the settings.
    #[error("admin client settings refused: {reason}")]
    Refused {
        /// librdkafka's text.
        reason: String,
    },
    /// No broker answered.
    #[error(
        "no Kafka broker answered at \"{bootstrap_servers}\" within {timeout_ms} ms ({reason}): \
         is the address right and the broker running?"
    )]
    Unreachable {
        /// Servers asked.
        bootstrap_servers: String,
        /// Time given, in milliseconds.
        timeout_ms: u128,
        /// librdkafka's text.
        reason: String,
    },
    /// The cluster refused.
    #[error("cannot {action} topic \"{topic}\": {reason}")]
    Topic {
        /// What was asked: create, grow, delete, look up.
        action: &'static str,
        /// Topic name.
        topic: String,
        /// Kafka's reason.
        reason: String,
    },
    /// The cluster agreed, but not all brokers showed it in time.
    #[error("topic \"{topic}\" is not {wanted} on every broker after {timeout_ms} ms: {last}")]
    NotSettled {
        /// Topic name.
        topic: String,
        /// What was waited for.
        wanted: &'static str,
        /// Time given, in milliseconds.
        timeout_ms: u128,
        /// What was seen last, by broker.
        last: String,
    },
}

/// A connection to a cluster for administration.
pub struct Admin {
    client: AdminClient<LogOnly>,
    bootstrap_servers: String,
    timeout: Duration,
}

impl Admin {
    /// Connects and makes sure that a broker answers. `timeout` also bounds each later call.
    pub fn connect(bootstrap_servers: &str, timeout: Duration) -> Result<Self, AdminError> {
        let settings = properties::base(bootstrap_servers, "weir-admin");
        let client = AdminClient::from_config_and_context(&settings, LogOnly).map_err(|error| {
            AdminError::Refused {
                reason: error.to_string(),
            }
        })?;
        let admin = Self {
            client,
            bootstrap_servers: bootstrap_servers.to_owned(),
            timeout,
        };
        admin.metadata(None)?;
        Ok(admin)
    }

    /// Node ids of all brokers, ascending.
    pub fn broker_ids(&self) -> Result<Vec<i32>, AdminError> {
        let metadata = self.metadata(None)?;
        let brokers = metadata.brokers().iter();
        let mut ids: Vec<_> = brokers.map(rdkafka::metadata::MetadataBroker::id).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Number of partitions, `None` if there is no such topic.
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

    /// Whether the cluster has the topic.
    pub fn topic_exists(&self, topic: &str) -> Result<bool, AdminError> {
        Ok(self.partitions(topic)?.is_some())
    }

    /// Creates a topic and waits until every broker shows a leader for each partition.
    ///
    /// # Errors
    /// Also if the topic exists already.
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
        let answer = block_on(self.client.create_topics([&topic], &self.options()));
        check("create", name, answer)?;
        self.wait_leaders(name, usize::try_from(partitions).unwrap_or(1))
    }

    /// Raises the number of partitions to `total` and waits like [`create_topic`](Self::create_topic).
    pub fn grow_topic(&self, name: &str, total: usize) -> Result<(), AdminError> {
        let wanted = NewPartitions::new(name, total);
        let answer = block_on(self.client.create_partitions([&wanted], &self.options()));
        check("grow", name, answer)?;
        self.wait_leaders(name, total)
    }

    /// Deletes a topic and waits until no broker shows it.
    pub fn delete_topic(&self, name: &str) -> Result<(), AdminError> {
        let answer = block_on(self.client.delete_topics(&[name], &self.options()));
        check("delete", name, answer)?;
        self.wait_everywhere(name, "gone", |view| *view == TopicView::Missing)
    }

    fn wait_leaders(&self, name: &str, partitions: usize) -> Result<(), AdminError> {
        self.wait_everywhere(
            name,
            "led",
            |view| matches!(view, TopicView::Led { with_leader, .. } if *with_leader >= partitions),
        )
    }

    /// Asks every broker by itself until all views satisfy `done`: a client that connects next
    /// may meet any of them.
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
            let mut open = Vec::new();
            for broker in metadata.brokers() {
                let view = view::ask(broker.host(), broker.port(), name, VIEW_TIMEOUT);
                match view {
                    Ok(view) if done(&view) => {}
                    Ok(view) => open.push(format!("broker {}: {view}", broker.id())),
                    Err(reason) => open.push(format!("broker {}: {reason}", broker.id())),
                }
            }
            if open.is_empty() && !metadata.brokers().is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(AdminError::NotSettled {
                    topic: name.to_owned(),
                    wanted,
                    timeout_ms: self.timeout.as_millis(),
                    last: open.join(", "),
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

/// Logs and nothing else.
struct LogOnly;

impl ClientContext for LogOnly {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        properties::log_line(level, facility, message);
    }

    fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, "admin: {reason}");
    }
}

fn check(
    action: &'static str,
    topic: &str,
    answer: KafkaResult<Vec<TopicResult>>,
) -> Result<(), AdminError> {
    let results = answer.map_err(|error| topic_error(action, topic, error.to_string()))?;
    for result in results {
        if let Err((_, code)) = result {
            return Err(topic_error(action, topic, code.to_string()));
        }
    }
    Ok(())
}

fn topic_error(action: &'static str, topic: &str, reason: String) -> AdminError {
    AdminError::Topic {
        action,
        topic: topic.to_owned(),
        reason,
    }
}

/// Drives one future on this thread; works inside and outside any runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(200);
const VIEW_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_broker_is_named_with_the_remedy() {
        let Err(error) = Admin::connect("127.0.0.1:1", Duration::from_millis(200)) else {
            panic!("nothing listens on port 1");
        };
        let text = error.to_string();
        let start = "no Kafka broker answered at \"127.0.0.1:1\" within 200 ms (";
        assert!(text.starts_with(start), "{text}");
    }
}
