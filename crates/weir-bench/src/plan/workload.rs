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
    #[serde(deserialize_with = "named")]
    pub(crate) kind: PayloadKind,
    /// Rate in records per second over all producers; cells of a grid or a sweep have their own
    /// rate.
    pub rate_per_s: f64,
    /// Records per second that a separate producer writes and marks as timed; all others are
    /// background load. 0: one producer writes all records and all are timed.
    pub(crate) marked_per_s: f64,
    /// Random characters in each value, for kinds with a size.
    pub(crate) size_bytes: u32,
    /// Producers that share the rate.
    pub(crate) producers: u32,
    pub(crate) partitions: u32,
    /// Seed of all random choices: keys, filler and the key of each client.
    pub(crate) seed: u64,
    pub(crate) replay: Option<String>,
    /// Topic for the kind `replay`, on the same brokers.
    pub(crate) replay_topic: Option<String>,
    pub(crate) keys: u32,
    #[serde(deserialize_with = "named")]
    pub(crate) distribution: KeyDistribution,
    /// Share of random bytes in values of the kind `random`.
    pub(crate) entropy: f64,
    /// Members per object of the kind `json-members`.
    pub(crate) members: u32,
    pub(crate) member_characters: u32,
    /// Share of members that changes from one record of a key to the next.
    pub(crate) change_ratio: f64,
    pub(crate) compression: String,
    pub(crate) timestamps: TimestampMode,
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
pub(crate) enum TimestampMode {
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
