//! What the producers of a plan write.

use serde::{Deserialize, Deserializer};

use weir_load::payload::{KeyDistribution, PayloadKind};

/// The `workload` table of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// Kind of record.
    #[serde(deserialize_with = "named")]
    pub kind: PayloadKind,
    /// Records due per second, all producers together; a grid's or a sweep's cells have their own.
    pub rate_per_s: f64,
    /// Those of them that a producer of its own writes with the mark of timed records; all others are
    /// background then. 0: all records are timed, and come from one producer.
    pub marked_per_s: f64,
    /// Random characters in each value, where the kind has a size.
    pub size_bytes: u32,
    /// Producers that share the rate.
    pub producers: u32,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Seed of every random choice: keys, filler, and which client wants which key.
    pub seed: u64,
    /// File of the kind `replay`.
    pub replay: Option<String>,
    /// Topic of the kind `replay`, on the same brokers.
    pub replay_topic: Option<String>,
    /// Number of keys.
    pub keys: u32,
    /// How records are spread over them.
    #[serde(deserialize_with = "named")]
    pub distribution: KeyDistribution,
    /// Share of random bytes in values of the kind `random`.
    pub entropy: f64,
    /// Members of objects of the kind `json-members`.
    pub members: u32,
    /// Characters of each.
    pub member_characters: u32,
    /// Share of them that changes from one record of a key to the next.
    pub change_ratio: f64,
    /// Kafka's name of the compression.
    pub compression: String,
    /// Who stamps records with the time: the producer, or the broker when it stores them.
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

/// Whose time a record carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampMode {
    /// That of its storage: tells the time before the broker from the time after it.
    #[default]
    Broker,
    /// That of its making.
    Producer,
}

impl TimestampMode {
    /// The topic's setting.
    pub(crate) fn topic_config(self) -> (&'static str, &'static str) {
        let value = match self {
            Self::Broker => "LogAppendTime",
            Self::Producer => "CreateTime",
        };
        ("message.timestamp.type", value)
    }
}

/// A value by the name it has in options.
fn named<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(serde::de::Error::custom)
}
