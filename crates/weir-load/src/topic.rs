//! Topics of a load: their names, and their creation before it starts.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use weir_kafka::{Admin, KafkaSettings};

use crate::error::{LoadError, Result};

/// How missing topics are created.
#[derive(Debug, Clone, Default, Args)]
pub struct NewTopicArgs {
    /// Create the topics that do not exist, with one partition by default
    #[arg(long, value_name = "PARTITIONS", num_args = 0..=1, default_missing_value = "1")]
    pub create_topic: Option<u32>,
    /// Replicas of each partition, with --create-topic [default: 1]
    #[arg(long, value_name = "COUNT", requires = "create_topic")]
    pub replication_factor: Option<u32>,
    /// Topic configuration, with --create-topic; repeatable
    ///
    /// For example min.insync.replicas=2.
    #[arg(
        long = "topic-config",
        id = "topic_configs",
        value_name = "KEY=VALUE",
        requires = "create_topic"
    )]
    pub configs: Vec<TopicConfig>,
}

/// Entry of a topic's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// Name, as in Kafka.
    pub key: String,
    /// Value.
    pub value: String,
}

impl FromStr for TopicConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("expected KEY=VALUE".to_owned()),
        }
    }
}

/// Returns the names of the topics of a load: `name` itself, or `name-0`, `name-1` and so on.
pub fn names(name: &str, topics: u32) -> Vec<String> {
    match topics {
        1 => vec![name.to_owned()],
        _ => (0..topics)
            .map(|number| format!("{name}-{number}"))
            .collect(),
    }
}

/// Checks that the topics exist, or creates them if `new` says so. Returns the number of brokers.
pub(crate) fn ensure(
    kafka: &KafkaSettings,
    topics: &[String],
    new: Option<&NewTopicArgs>,
) -> Result<usize> {
    let admin = Admin::connect(kafka, TIMEOUT)?;
    let brokers = admin.broker_ids()?.len();
    for topic in topics {
        if admin.topic_exists(topic)? {
            continue;
        }
        let Some((new, partitions)) = new.and_then(|new| Some((new, new.create_topic?))) else {
            let servers = kafka.bootstrap_servers.clone();
            return Err(LoadError::TopicMissing(topic.clone(), servers));
        };
        let count = |count| i32::try_from(count).unwrap_or(i32::MAX);
        let configs = new.configs.iter();
        let configs = configs.map(|it| (it.key.as_str(), it.value.as_str()));
        let configs: Vec<_> = configs.collect();
        let replicas = count(new.replication_factor.unwrap_or(1));
        admin.create_topic(topic, count(partitions), replicas, &configs)?;
    }
    Ok(brokers)
}

const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_several_topics_have_numbers() {
        assert_eq!(names("t", 1), ["t"]);
        assert_eq!(names("t", 3), ["t-0", "t-1", "t-2"]);
    }

    #[test]
    fn topic_configuration_has_key_and_value() {
        let config: TopicConfig = "retention.ms=-1".parse().expect("an entry");
        assert_eq!(
            (config.key.as_str(), config.value.as_str()),
            ("retention.ms", "-1")
        );
        for wrong in ["", "=1", "retention.ms"] {
            assert!(wrong.parse::<TopicConfig>().is_err(), "{wrong}");
        }
    }
}
