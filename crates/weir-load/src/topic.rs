//! Finds or creates the topic of a load before it starts.

use std::time::Duration;

use weir_kafka::{Admin, KafkaSettings};

use crate::error::{LoadError, Result};

/// Checks that the topic exists, or creates it with this number of partitions. Returns the number
/// of brokers.
pub(crate) fn ensure(kafka: &KafkaSettings, topic: &str, create: Option<u32>) -> Result<usize> {
    let admin = Admin::connect(kafka, TIMEOUT)?;
    let brokers = admin.broker_ids()?.len();
    if admin.topic_exists(topic)? {
        return Ok(brokers);
    }
    let Some(partitions) = create else {
        return Err(LoadError::TopicMissing(
            topic.to_owned(),
            kafka.bootstrap_servers.clone(),
        ));
    };
    let count = i32::try_from(partitions).unwrap_or(i32::MAX);
    admin.create_topic(topic, count, 1, &[])?;
    Ok(brokers)
}

const TIMEOUT: Duration = Duration::from_secs(10);
