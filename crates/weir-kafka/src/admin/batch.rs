//! Operations on several topics, and ends of partitions.

use std::time::Instant;

use pollster::block_on;
use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::view::TopicView;
use super::{Admin, AdminError, POLL_MAX, POLL_MIN, check, topic_error};

impl Admin {
    /// Creates topics of one partition and one replica in one request. Waits until every broker
    /// reports a leader for each.
    ///
    /// # Errors
    /// Also if one of them exists; others may have been created then.
    pub fn create_topics(
        &self,
        names: &[String],
        configs: &[(&str, &str)],
    ) -> Result<(), AdminError> {
        let Some(first) = names.first() else {
            return Ok(());
        };
        let topic = |name| {
            let mut topic = NewTopic::new(name, 1, TopicReplication::Fixed(1));
            topic.config = configs.to_vec();
            topic
        };
        let topics: Vec<NewTopic<'_>> = names.iter().map(|name| topic(name)).collect();
        let response = block_on(self.client.create_topics(&topics, &self.options()));
        check("create", first, response)?;
        names.iter().try_for_each(|name| {
            self.wait_leaders(name, 1)?;
            // A broker reports itself as a leader shortly before it accepts records.
            self.end_offset(name, 0).map(|_| ())
        })
    }

    /// Deletes topics in one request and waits until no broker reports any of them. Topics that do
    /// not exist are ignored.
    pub fn delete_topics(&self, names: &[String]) -> Result<(), AdminError> {
        let Some(first) = names.first() else {
            return Ok(());
        };
        let names_only: Vec<&str> = names.iter().map(String::as_str).collect();
        let response = block_on(self.client.delete_topics(&names_only, &self.options()));
        let missing = RDKafkaErrorCode::UnknownTopicOrPartition;
        let response = response.map(|mut results| {
            results.retain(|result| !matches!(result, Err((_, code)) if *code == missing));
            results
        });
        check("delete", first, response)?;
        let deleted = |view: &TopicView| *view == TopicView::Missing;
        names
            .iter()
            .try_for_each(|name| self.wait_everywhere(name, "deleted", deleted))
    }

    /// Deletes the records of a partition before `offset`.
    pub fn delete_records(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), AdminError> {
        let failed = |error: KafkaError| topic_error("delete records of", topic, error.to_string());
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset))
            .map_err(failed)?;
        let response = block_on(self.client.delete_records(&list, &self.options()));
        let list = response.map_err(failed)?;
        let mut elements = list.elements().into_iter();
        elements
            .try_for_each(|element| element.error())
            .map_err(failed)
    }

    /// Returns the offset of the next record of a partition. Retries while a leader is being
    /// elected.
    pub fn end_offset(&self, topic: &str, partition: i32) -> Result<u64, AdminError> {
        let deadline = Instant::now() + self.timeout;
        let mut pause = POLL_MIN;
        loop {
            let client = self.client.inner();
            match client.fetch_watermarks(topic, partition, self.timeout) {
                Ok((_, end)) => return Ok(u64::try_from(end).unwrap_or(0)),
                Err(error) if !is_transient(&error) || Instant::now() >= deadline => {
                    return Err(topic_error("look up", topic, error.to_string()));
                }
                Err(_) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(POLL_MAX);
        }
    }
}

/// Returns `true` for errors of a broker whose metadata is not up to date yet.
fn is_transient(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::NotLeaderForPartition | RDKafkaErrorCode::LeaderNotAvailable)
    )
}
