//! Options of the consumers of a run.

use std::time::Duration;

use weir_kafka::KafkaSettings;
use weir_kafka::lean::{LeanConfig, LeanGroups};

use super::latency_source::LatencySource;
use super::values::ValueArgs;
use crate::share::WorkerShare;

/// Client library of the consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ConsumerClient {
    /// Weir's lightweight consumer, thousands in one thread
    #[default]
    Lean,
    /// librdkafka, with a client and a thread per consumer
    Librdkafka,
}

/// Options of the consumers of a run.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// Cluster to read from.
    pub kafka: KafkaSettings,
    /// Topic, or prefix of several. Every consumer or group reads all partitions of one topic from
    /// their end.
    pub topic: String,
    /// Number of topics, at least 1; the consumers or groups are distributed over them.
    pub topics: u32,
    /// Time for which the consumers read nothing, from the start of the measured window.
    pub backlog: Option<Duration>,
    /// Number of consumers of this process.
    pub clients: usize,
    /// Share of this process.
    pub share: WorkerShare,
    /// Client library.
    pub client: ConsumerClient,
    /// New connections per second.
    pub ramp_per_s: usize,
    /// Maximum time for which a broker delays a fetch response without records.
    pub max_wait: Duration,
    /// Source of the records' due times.
    pub latency_from: LatencySource,
    /// Form of values in which the due time is a field.
    pub values: ValueArgs,
    /// Record latencies only of records with the mark of probe records.
    pub marked_only: bool,
    /// Time records without a due time by their timestamp.
    pub record_timestamps: bool,
    /// Groups that the consumers join; `None`: all are standalone.
    pub groups: Option<LeanGroups>,
    /// Interval of the report in the form of the published programs; `None`: no report.
    pub published_report: Option<Duration>,
}

impl ConsumerOptions {
    /// Returns the options of `clients` consumers of one topic with 1,000 new connections per
    /// second and fetch delays of up to 500 ms.
    pub fn new(kafka: &KafkaSettings, topic: &str, clients: usize) -> Self {
        Self {
            kafka: kafka.clone(),
            topic: topic.to_owned(),
            topics: 1,
            backlog: None,
            clients,
            share: WorkerShare::WHOLE,
            client: ConsumerClient::Lean,
            ramp_per_s: 1000,
            max_wait: Duration::from_millis(500),
            latency_from: LatencySource::Header,
            values: ValueArgs::default(),
            marked_only: false,
            record_timestamps: false,
            groups: None,
            published_report: None,
        }
    }

    /// Returns the configuration for one of several topics, which `consumers` of this process read.
    pub(super) fn config(&self, (number, topic): (u32, &str), consumers: usize) -> LeanConfig {
        let mut groups = self.groups.clone();
        if let Some(groups) = groups.as_mut().filter(|_| self.topics > 1) {
            groups.prefix = format!("{}topic-{number}-", groups.prefix);
        }
        LeanConfig {
            kafka: self.kafka.clone(),
            topic: topic.to_owned(),
            consumers,
            max_wait_ms: i32::try_from(self.max_wait.as_millis()).unwrap_or(i32::MAX),
            connect_rate_per_s: self.ramp_per_s.div_ceil(self.topics as usize),
            client_id: "weir-load-consume".to_owned(),
            groups,
            ..LeanConfig::default()
        }
    }

    /// Returns the number of consumers of a group; 1 without groups.
    pub(super) fn members(&self) -> usize {
        self.groups.as_ref().map_or(1, |groups| groups.members)
    }

    /// Returns the topic's number for a consumer or group of this process.
    pub(super) fn topic_of(&self, receiver: usize) -> u32 {
        let receiver = self.share.index + receiver * self.share.of;
        // A remainder of a u32 fits a u32.
        (receiver % self.topics.max(1) as usize) as u32
    }
}
