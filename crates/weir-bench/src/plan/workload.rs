//! The load that the producers of a plan write.

use std::time::Duration;

use serde::Deserialize;

use super::{PlanError, Rules};
use crate::experiment::plan_file::named;
use weir_load::payload::{KeyDistribution, PayloadKind};

/// The `workload` table of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// Kind of payload.
    #[serde(deserialize_with = "named")]
    pub kind: PayloadKind,
    /// Rate in records per second over all producers; cells of a grid or a sweep have their own
    /// rate.
    pub rate_per_s: f64,
    /// Records per second that a separate producer writes and marks as timed; all others are
    /// background load. 0: one producer writes all records and all are timed.
    pub marked_per_s: f64,
    /// Random characters in each value, for kinds with a size.
    pub size_bytes: u32,
    /// Producers that share the rate.
    pub producers: u32,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Seed of all random choices: keys, filler and the key of each client.
    pub seed: u64,
    /// File for the kind `replay`.
    pub replay: Option<String>,
    /// Topic for the kind `replay`, on the same brokers.
    pub replay_topic: Option<String>,
    /// Number of keys.
    pub keys: u32,
    /// Distribution of records over keys.
    #[serde(deserialize_with = "named")]
    pub distribution: KeyDistribution,
    /// Share of random bytes in values of the kind `random`.
    pub entropy: f64,
    /// Members per object of the kind `json-members`.
    pub members: u32,
    /// Characters per member.
    pub member_characters: u32,
    /// Share of members that changes from one record of a key to the next.
    pub change_ratio: f64,
    /// Compression, by Kafka's name.
    pub compression: String,
    /// Origin of record timestamps.
    pub timestamps: TimestampMode,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            kind: PayloadKind::Keyed,
            rate_per_s: 100.0,
            marked_per_s: 0.0,
            size_bytes: 1024,
            producers: 1,
            partitions: 1,
            seed: 0,
            replay: None,
            replay_topic: None,
            keys: 40,
            distribution: KeyDistribution::Uniform,
            entropy: 1.0,
            members: 20,
            member_characters: 24,
            change_ratio: 0.1,
            compression: "none".to_owned(),
            timestamps: TimestampMode::Broker,
        }
    }
}

impl Workload {
    /// Requires the rules of all loads.
    pub(crate) fn require(&self, rules: &Rules<'_>, hold: Duration) -> Result<(), PlanError> {
        rules.hold(!hold.is_zero(), "hold", "0s", "use a duration above 0")?;
        rules.at_least_one("workload.producers", self.producers)?;
        rules.at_least_one("workload.partitions", self.partitions)?;
        rules.at_least_one("workload.keys", self.keys)
    }
}

/// Origin of record timestamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampMode {
    /// Time of storage by the broker: separates the time before the broker from the time after it.
    #[default]
    Broker,
    /// Time of creation by the producer.
    Producer,
}

impl TimestampMode {
    /// Returns the topic configuration entry.
    pub(crate) fn topic_config(self) -> (&'static str, &'static str) {
        let value = match self {
            Self::Broker => "LogAppendTime",
            Self::Producer => "CreateTime",
        };
        ("message.timestamp.type", value)
    }
}
