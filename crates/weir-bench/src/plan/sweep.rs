//! Sweeps: one producer over record sizes and rates, then one consumer over fetch sizes.

use serde::Deserialize;

/// The `sweep` table of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Bytes of each record's value.
    #[serde(default)]
    pub record_sizes_bytes: Vec<u64>,
    /// Records due per second.
    #[serde(default)]
    pub targets_per_s: Vec<u64>,
    /// Bytes that a consumer fetches at most per request and partition.
    #[serde(default)]
    pub fetch_sizes_bytes: Vec<u64>,
    /// Messages that each consumer reads.
    #[serde(default = "messages")]
    pub messages: u64,
    /// Bytes of each of their values.
    #[serde(default = "message_size")]
    pub message_size_bytes: u64,
    /// Most bytes per second that a producer's cell may ask for; those beyond are skipped.
    pub mib_per_s_max: Option<u64>,
    /// Run Apache Kafka's own tools on the same cells.
    #[serde(default)]
    pub kafka_tools: bool,
}

/// Values that take the place of a sweep's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SweepOverrides {
    /// Bytes of each record's value.
    pub record_sizes_bytes: Option<Vec<u64>>,
    /// Records due per second.
    pub targets_per_s: Option<Vec<u64>>,
    /// Bytes that a consumer fetches at most per request and partition.
    pub fetch_sizes_bytes: Option<Vec<u64>>,
    /// Messages that each consumer reads.
    pub messages: Option<u64>,
    /// Most bytes per second that a producer's cell may ask for.
    pub mib_per_s_max: Option<u64>,
    /// Run Apache Kafka's own tools on the same cells.
    pub kafka_tools: Option<bool>,
}

impl SweepPlan {
    /// The sweep with some values replaced.
    pub(super) fn with(mut self, overrides: SweepOverrides) -> Self {
        let SweepOverrides {
            record_sizes_bytes,
            targets_per_s,
            fetch_sizes_bytes,
            messages,
            mib_per_s_max,
            kafka_tools,
        } = overrides;
        self.record_sizes_bytes = record_sizes_bytes.unwrap_or(self.record_sizes_bytes);
        self.targets_per_s = targets_per_s.unwrap_or(self.targets_per_s);
        self.fetch_sizes_bytes = fetch_sizes_bytes.unwrap_or(self.fetch_sizes_bytes);
        self.messages = messages.unwrap_or(self.messages);
        self.mib_per_s_max = mib_per_s_max.or(self.mib_per_s_max);
        self.kafka_tools = kafka_tools.unwrap_or(self.kafka_tools);
        for values in [
            &mut self.record_sizes_bytes,
            &mut self.targets_per_s,
            &mut self.fetch_sizes_bytes,
        ] {
            values.sort_unstable();
        }
        self
    }

    /// What makes no sense about it: key, value and remedy.
    pub(super) fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        let produces = !self.record_sizes_bytes.is_empty() && !self.targets_per_s.is_empty();
        if !produces && self.fetch_sizes_bytes.is_empty() {
            let remedy = "give record_sizes_bytes with targets_per_s, or fetch_sizes_bytes";
            return Some(("sweep", "{}".to_owned(), remedy));
        }
        let limits = [
            ("sweep.record_sizes_bytes", &self.record_sizes_bytes),
            ("sweep.targets_per_s", &self.targets_per_s),
            ("sweep.fetch_sizes_bytes", &self.fetch_sizes_bytes),
        ];
        for (key, values) in limits {
            if let Some(wrong) = values.iter().find(|value| !(1..=MAX).contains(*value)) {
                return Some((key, wrong.to_string(), "give numbers from 1 to 100000000"));
            }
        }
        let one = [
            ("sweep.messages", self.messages),
            ("sweep.message_size_bytes", self.message_size_bytes),
        ];
        let wrong = one
            .into_iter()
            .find(|(_, value)| !(1..=MAX).contains(value));
        wrong.map(|(key, value)| (key, value.to_string(), "give a number from 1 to 100000000"))
    }

    /// The producer's cells, sizes outermost: bytes of a record and records per second.
    pub fn producer_points(&self) -> Vec<(u64, u64)> {
        let sizes = self.record_sizes_bytes.iter();
        sizes
            .flat_map(|size| self.targets_per_s.iter().map(|target| (*size, *target)))
            .collect()
    }
}

fn messages() -> u64 {
    100_000
}

fn message_size() -> u64 {
    1000
}

/// Kafka takes no larger record with its usual limits, and nobody waits for more messages.
const MAX: u64 = 100_000_000;
