//! Operations on several topics, and ends of partitions.

use std::time::Instant;

use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::view::TopicView;
use super::{Admin, AdminError, POLL_MAX, POLL_MIN, block_on, topic_error};

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
        if names.is_empty() {
            return Ok(());
        }
        let topics: Vec<NewTopic<'_>> = names
            .iter()
            .map(|name| {
                let mut topic = NewTopic::new(name, 1, TopicReplication::Fixed(1));
                topic.config = configs.to_vec();
                topic
            })
            .collect();
        let response = block_on(self.client.create_topics(&topics, &self.options()));
        let results =
            response.map_err(|error| topic_error("create", &names[0], error.to_string()))?;
        for result in results {
            result.map_err(|(name, code)| topic_error("create", &name, code.to_string()))?;
        }
        names.iter().try_for_each(|name| {
            self.wait_leaders(name, 1)?;
            // A broker reports itself as a leader shortly before it accepts records.
            self.end_offset(name, 0).map(|_| ())
        })
    }

    /// Deletes topics in one request and waits until no broker reports any of them. Topics that do
    /// not exist are ignored.
    ///
    /// # Errors
    /// If a topic cannot be deleted.
    pub fn delete_topics(&self, names: &[String]) -> Result<(), AdminError> {
        let Some(first) = names.first() else {
            return Ok(());
        };
        let names_only: Vec<&str> = names.iter().map(String::as_str).collect();
        let response = block_on(self.client.delete_topics(&names_only, &self.options()));
        let results = response.map_err(|error| topic_error("delete", first, error.to_string()))?;
        for result in results {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
                Err((name, code)) => return Err(topic_error("delete", &name, code.to_string())),
            }
        }
        let deleted = |view: &TopicView| *view == TopicView::Missing;
        names
            .iter()
            .try_for_each(|name| self.wait_everywhere(name, "deleted", deleted))
    }

    /// Deletes the records of a partition before `offset`.
    ///
    /// # Errors
    /// Kafka rejected the request.
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
        let elements = response.map_err(failed)?;
        let elements = elements.elements();
        elements
            .iter()
            .try_for_each(|element| element.error())
            .map_err(failed)
    }

    /// Returns the offset of the next record of a partition. Retries while a leader is being
    /// elected.
    ///
    /// # Errors
    /// If no leader responds.
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
