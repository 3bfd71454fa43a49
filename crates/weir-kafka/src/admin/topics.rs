//! Creates, grows and deletes single topics, and waits until all brokers know the result.

use std::time::{Duration, Instant};

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::{CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest};

use super::change::{
    CREATE_VERSION, DELETE_VERSION, GROW_VERSION, TopicResult, check, millis, text, topic_name,
};
use super::client::{Admin, POLL_MAX, POLL_MIN};
use super::error::AdminError;
use super::view::{TopicView, request_view};

impl Admin {
    /// Creates a topic and waits until every broker reports a leader for each partition, and the
    /// leaders respond.
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
        let replication = i16::try_from(replication).unwrap_or(i16::MAX);
        let topic = new_topic(name, partitions, replication, configs);
        self.send_create(vec![topic], name)?;
        self.wait_leaders(name, usize::try_from(partitions).unwrap_or(1))
    }

    /// Raises the number of partitions to `total` and waits as [`create_topic`](Self::create_topic)
    /// does.
    pub fn grow_topic(&self, name: &str, total: usize) -> Result<(), AdminError> {
        let topic = CreatePartitionsTopic::default()
            .with_name(topic_name(name))
            .with_count(i32::try_from(total).unwrap_or(i32::MAX))
            .with_assignments(None);
        let request = CreatePartitionsRequest::default()
            .with_timeout_ms(millis(self.timeout))
            .with_topics(vec![topic]);
        self.change_topics("grow", name, GROW_VERSION, &request)?;
        self.wait_leaders(name, total)
    }

    /// Deletes a topic and waits until no broker reports it.
    pub fn delete_topic(&self, name: &str) -> Result<(), AdminError> {
        let results = self.send_delete(&[name], name)?;
        check("delete", name, results)?;
        self.wait_everywhere(name, "deleted", |view| *view == TopicView::Missing)
    }

    pub(super) fn send_create(
        &self,
        topics: Vec<CreatableTopic>,
        first: &str,
    ) -> Result<(), AdminError> {
        let request = CreateTopicsRequest::default()
            .with_timeout_ms(millis(self.timeout))
            .with_topics(topics);
        self.change_topics("create", first, CREATE_VERSION, &request)
    }

    pub(super) fn send_delete(
        &self,
        names: &[&str],
        first: &str,
    ) -> Result<Vec<TopicResult>, AdminError> {
        let request = DeleteTopicsRequest::default()
            .with_timeout_ms(millis(self.timeout))
            .with_topic_names(names.iter().map(|name| topic_name(name)).collect());
        self.request_change("delete", first, DELETE_VERSION, &request)
    }

    /// Waits until all brokers report the leaders of all partitions, and the leaders respond.
    pub(super) fn wait_leaders(&self, name: &str, partitions: usize) -> Result<(), AdminError> {
        let led = |view: &TopicView| match view {
            TopicView::Led { with_leader, .. } => *with_leader >= partitions,
            TopicView::Missing | TopicView::Failed(_) => false,
        };
        self.wait_everywhere(name, "ready", led)?;
        // A broker reports itself as a leader shortly before it accepts requests as one.
        self.wait_responses(name, partitions)
    }

    /// Requests the topic's state from every broker until all satisfy `done`, because a client may
    /// connect to any of them.
    pub(super) fn wait_everywhere(
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
            for broker in &metadata.brokers {
                match request_view(&self.security, broker, name, VIEW_TIMEOUT) {
                    Ok(view) if done(&view) => {}
                    Ok(view) => pending.push(format!("broker {}: {view}", broker.id)),
                    Err(error) => pending.push(format!("broker {}: {error}", broker.id)),
                }
            }
            if pending.is_empty() && !metadata.brokers.is_empty() {
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
}

pub(super) fn new_topic(
    name: &str,
    partitions: i32,
    replication: i16,
    configs: &[(&str, &str)],
) -> CreatableTopic {
    let config = |(name, value): &(&str, &str)| {
        CreatableTopicConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    };
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replication)
        .with_configs(configs.iter().map(config).collect())
}

const VIEW_TIMEOUT: Duration = Duration::from_secs(2);
