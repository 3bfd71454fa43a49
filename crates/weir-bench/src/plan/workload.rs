//! The load that the producers of a plan write.

use std::time::Duration;

use serde::Deserialize;

use super::{PlanError, Rules};
use crate::experiment::plan_file::{named, some_duration};
use weir_load::payload::{KeyDistribution, PayloadKind};
use weir_load::value_schema::RecordFormat;

/// The `workload` table of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    #[serde(deserialize_with = "named")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) kind: PayloadKind,
    /// Rate in records per second over all producers; cells of a grid or a sweep have their own
    /// rate.
    pub rate_per_s: f64,
    /// Records per second that a separate producer writes and marks as timed; all others are
    /// background load. 0: one producer writes all records and all are timed.
    pub(crate) marked_per_s: f64,
    /// Random characters in each value, for kinds with a size; bytes, for kinds with a schema.
    /// `None`: 1024, or what the schema's texts of usual length have.
    size_bytes: Option<u32>,
    /// Producers that share the rate.
    pub(crate) producers: u32,
    pub(crate) partitions: u32,
    /// Seed of all random choices: keys, filler and the key of each client.
    pub(crate) seed: u64,
    pub(crate) replay: Option<String>,
    /// Topic for the kind `replay`, on the same brokers.
    pub(crate) replay_topic: Option<String>,
    /// Schema of values of the kinds `avro` and `protobuf`; `None`: the built-in one.
    pub(crate) schema: Option<String>,
    /// Protobuf message type.
    pub(crate) message: Option<String>,
    pub(crate) time_field: Option<String>,
    pub(crate) stamp_field: Option<String>,
    /// URL of the registry at which the schema is registered.
    pub(crate) registry: Option<String>,
    pub(crate) registry_config: Option<String>,
    /// Id in the frame of each value, without a registry.
    pub(crate) schema_id: Option<i32>,
    pub(crate) keys: u32,
    #[serde(deserialize_with = "named")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) distribution: KeyDistribution,
    /// Share of random bytes in values of the kind `random`.
    pub(crate) entropy: f64,
    /// Members per object of the kind `json-members`.
    pub(crate) members: u32,
    pub(crate) member_characters: u32,
    /// Share of members that changes from one record of a key to the next.
    pub(crate) change_ratio: f64,
    pub(crate) compression: String,
    /// Duration of transactions; `None`: records are sent without.
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) transaction_duration: Option<Duration>,
    pub(crate) timestamps: TimestampMode,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            kind: PayloadKind::Keyed,
            rate_per_s: 100.0,
            marked_per_s: 0.0,
            size_bytes: None,
            producers: 1,
            partitions: 1,
            seed: 0,
            replay: None,
            replay_topic: None,
            schema: None,
            message: None,
            time_field: None,
            stamp_field: None,
            registry: None,
            registry_config: None,
            schema_id: None,
            keys: 40,
            distribution: KeyDistribution::Uniform,
            entropy: 1.0,
            members: 20,
            member_characters: 24,
            change_ratio: 0.1,
            compression: "none".to_owned(),
            transaction_duration: None,
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
        rules.at_least_one("workload.keys", self.keys)?;
        self.require_schema(rules)
    }

    /// Returns the value of the producer's option `--size`; `None`: that of the schema.
    pub(crate) fn size(&self) -> Option<u32> {
        let is_usual = self.size_bytes.is_none() && self.kind.record_format().is_some();
        (!is_usual).then(|| self.size_bytes.unwrap_or(SIZE_DEFAULT))
    }

    /// Requires a schema for the placeholder in a gateway configuration.
    pub(crate) fn require_placeholder(
        &self,
        rules: &Rules<'_>,
        config: &str,
    ) -> Result<(), PlanError> {
        let format = self.kind.record_format();
        let remedy = "without workload.schema, only the kinds avro and json2 have a schema file \
             that a gateway reads; for protobuf name a descriptor set";
        let has_file = self.schema.is_some()
            || matches!(format, Some(RecordFormat::Avro | RecordFormat::Json));
        let holds = has_file || !config.contains(SCHEMA_PLACEHOLDER);
        rules.hold(holds, "clients.adapters", SCHEMA_PLACEHOLDER, remedy)
    }

    fn require_schema(&self, rules: &Rules<'_>) -> Result<(), PlanError> {
        let has_schema = self.kind.record_format().is_some();
        let id = self.schema_id.map(|id| id.to_string());
        for (key, value) in [
            ("workload.schema", &self.schema),
            ("workload.message", &self.message),
            ("workload.time_field", &self.time_field),
            ("workload.stamp_field", &self.stamp_field),
            ("workload.registry", &self.registry),
            ("workload.registry_config", &self.registry_config),
            ("workload.schema_id", &id),
        ] {
            let remedy = "values of this kind have no schema; use kind avro, protobuf or json2";
            let shown = value.as_deref().unwrap_or_default();
            rules.hold(has_schema || value.is_none(), key, shown, remedy)?;
        }
        let is_single = self.schema_id.is_none() || self.registry.is_none();
        let shown = id.unwrap_or_default();
        let remedy = "the registry returns the id; omit one of both";
        rules.hold(is_single, "workload.schema_id", shown, remedy)
    }
}

const SIZE_DEFAULT: u32 = 1024;
/// Placeholder for the path of the schema in a gateway configuration.
pub(crate) const SCHEMA_PLACEHOLDER: &str = "@SCHEMA@";

/// Origin of record timestamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
