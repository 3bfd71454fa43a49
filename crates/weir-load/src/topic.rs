//! Finds or creates the topic of a load before it starts.

use std::time::Duration;

use weir_kafka::Admin;

use crate::error::LoadError;

/// Checks that the topic exists. Returns the number of brokers.
pub(crate) fn require(bootstrap_servers: &str, topic: &str) -> Result<usize, LoadError> {
    ensure(bootstrap_servers, topic, None)
}

/// Like [`require`], but creates a missing topic with `create_partitions` partitions.
pub(crate) fn ensure(
    bootstrap_servers: &str,
    topic: &str,
    create_partitions: Option<u32>,
) -> Result<usize, LoadError> {
    let admin = Admin::connect(bootstrap_servers, TIMEOUT)?;
    let brokers = admin.broker_ids()?.len();
    if admin.topic_exists(topic)? {
        return Ok(brokers);
    }
    let Some(partitions) = create_partitions else {
        let (topic, servers) = (topic.to_owned(), bootstrap_servers.to_owned());
        return Err(LoadError::TopicMissing(topic, servers));
    };
    let count = i32::try_from(partitions).unwrap_or(i32::MAX);
    admin.create_topic(topic, count, 1, &[])?;
    Ok(brokers)
}

const TIMEOUT: Duration = Duration::from_secs(10);
