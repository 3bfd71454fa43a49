//! Parameters of broker sweeps: a producer over record sizes and rates, then a consumer over fetch
//! sizes.

use serde::Deserialize;

/// The `sweep` table of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Bytes of each record's value.
    #[serde(default)]
    pub record_sizes_bytes: Vec<u64>,
    /// Target rates in records per second.
    #[serde(default)]
    pub target_rates_per_s: Vec<u64>,
    /// Maximum bytes that a consumer fetches per request and partition.
    #[serde(default)]
    pub fetch_sizes_bytes: Vec<u64>,
    /// Records that each consumer reads.
    #[serde(default = "consumer_records")]
    pub consumer_records: u64,
    /// Bytes of the value of each record that consumers read.
    #[serde(default = "consumer_record_bytes")]
    pub consumer_record_bytes: u64,
    /// Maximum rate of a producer cell in MiB/s; cells above it are skipped.
    pub mib_per_s_max: Option<u64>,
    /// Runs Apache Kafka's own tools on the same cells.
    #[serde(default)]
    pub kafka_tools: bool,
}

/// Values that replace those of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SweepOverrides {
    /// Bytes of each record's value.
    pub record_sizes_bytes: Option<Vec<u64>>,
    /// Target rates in records per second.
    pub target_rates_per_s: Option<Vec<u64>>,
    /// Maximum bytes that a consumer fetches per request and partition.
    pub fetch_sizes_bytes: Option<Vec<u64>>,
    /// Records that each consumer reads.
    pub consumer_records: Option<u64>,
    /// Maximum rate of a producer cell in MiB/s.
    pub mib_per_s_max: Option<u64>,
    /// Runs Apache Kafka's own tools on the same cells.
    pub kafka_tools: Option<bool>,
}

impl SweepPlan {
    /// Returns the sweep with some values replaced.
    pub(super) fn with(mut self, new: SweepOverrides) -> Self {
        self.record_sizes_bytes = new.record_sizes_bytes.unwrap_or(self.record_sizes_bytes);
        self.target_rates_per_s = new.target_rates_per_s.unwrap_or(self.target_rates_per_s);
        self.fetch_sizes_bytes = new.fetch_sizes_bytes.unwrap_or(self.fetch_sizes_bytes);
        self.consumer_records = new.consumer_records.unwrap_or(self.consumer_records);
        self.mib_per_s_max = new.mib_per_s_max.or(self.mib_per_s_max);
        self.kafka_tools = new.kafka_tools.unwrap_or(self.kafka_tools);
        for values in [
            &mut self.record_sizes_bytes,
            &mut self.target_rates_per_s,
            &mut self.fetch_sizes_bytes,
        ] {
            values.sort_unstable();
        }
        self
    }

    /// Returns the first violation: key, value and remedy.
    pub(super) fn violation(&self) -> Option<(&'static str, String, &'static str)> {
        let produces = !self.record_sizes_bytes.is_empty() && !self.target_rates_per_s.is_empty();
        if !produces && self.fetch_sizes_bytes.is_empty() {
            let remedy = "set record_sizes_bytes and target_rates_per_s, or fetch_sizes_bytes";
            return Some(("sweep", "{}".to_owned(), remedy));
        }
        let limits = [
            ("sweep.record_sizes_bytes", &self.record_sizes_bytes),
            ("sweep.target_rates_per_s", &self.target_rates_per_s),
            ("sweep.fetch_sizes_bytes", &self.fetch_sizes_bytes),
        ];
        for (key, values) in limits {
            if let Some(wrong) = values.iter().find(|value| !(1..=MAX).contains(*value)) {
                return Some((key, wrong.to_string(), "use numbers from 1 to 100000000"));
            }
        }
        let one = [
            ("sweep.consumer_records", self.consumer_records),
            ("sweep.consumer_record_bytes", self.consumer_record_bytes),
        ];
        let wrong = one
            .into_iter()
            .find(|(_, value)| !(1..=MAX).contains(value));
        wrong.map(|(key, value)| (key, value.to_string(), "use a number from 1 to 100000000"))
    }

    /// Returns the producer cells, record sizes outermost: bytes per record and records per second.
    pub fn producer_points(&self) -> Vec<(u64, u64)> {
        let sizes = self.record_sizes_bytes.iter();
        sizes
            .flat_map(|size| self.target_rates_per_s.iter().map(|rate| (*size, *rate)))
            .collect()
    }
}

fn consumer_records() -> u64 {
    100_000
}

fn consumer_record_bytes() -> u64 {
    1000
}

/// Maximum of every number: with default limits Kafka accepts no larger record, and reading more
/// records takes too long.
const MAX: u64 = 100_000_000;
