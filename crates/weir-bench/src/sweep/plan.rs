//! Plans of broker sweeps: a producer over record sizes and rates, then a consumer over fetch
//! sizes.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::experiment::plan_file::{duration, replace_fields, some_duration};
use crate::plan::{PlanError, PlanText, Rules, Valid, Validity, Workload};
use weir_load::units::{parse_count, parse_duration};

/// Plan of a broker sweep.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Name, as in `weir bench run NAME` and in the directories of runs.
    pub(crate) name: String,
    /// Title of reports.
    pub(crate) title: String,
    /// Question that the plan answers.
    pub(crate) question: String,
    /// Hardware that the full sweep is meant for, if it needs more than an ordinary machine.
    pub(crate) full_scale: Option<String>,
    /// Existing topic that all cells use instead of new ones.
    #[serde(skip)]
    pub(crate) topic: Option<String>,
    /// A/A test: Weir measures each cell as two variants.
    #[serde(skip)]
    pub(crate) aa_test: bool,
    pub(crate) repetitions: u32,
    /// Duration of the load on a newly started broker before the first cell.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) broker_warm_up: Duration,
    /// Time before the measured window.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) warm_up: Duration,
    /// Length of the measured window of a producer, by due time.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) hold: Duration,
    /// Maximum wait for late acknowledgements.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) drain: Duration,
    pub(crate) sweep: SweepGrid,
    pub(crate) workload: Workload,
    /// Limits within which the benchmarking tool's measurements are valid.
    #[serde(default)]
    pub(crate) validity: Validity,
    #[serde(default)]
    pub(crate) quick: SweepOverrides,
}

/// The `sweep` table of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SweepGrid {
    /// Bytes of each record's value.
    pub(crate) record_sizes_bytes: Vec<u64>,
    /// Target rates in records per second.
    pub(crate) target_rates_per_s: Vec<u64>,
    /// Maximum bytes that a consumer fetches per request and partition.
    pub(crate) fetch_sizes_bytes: Vec<u64>,
    /// Records that each consumer reads.
    pub(crate) consumer_records: u64,
    /// Bytes of the value of each record that consumers read.
    pub(crate) consumer_record_bytes: u64,
    /// Maximum rate of a producer cell in MiB/s; cells above it are skipped.
    pub(crate) mib_per_s_max: Option<u64>,
    /// Runs Apache Kafka's own tools on the same cells.
    pub(crate) kafka_tools: bool,
}

impl Default for SweepGrid {
    fn default() -> Self {
        Self {
            record_sizes_bytes: Vec::new(),
            target_rates_per_s: Vec::new(),
            fetch_sizes_bytes: Vec::new(),
            consumer_records: 100_000,
            consumer_record_bytes: 1000,
            mib_per_s_max: None,
            kafka_tools: false,
        }
    }
}

/// Values that replace those of a plan.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Args)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SweepOverrides {
    /// Repetitions of each cell
    #[arg(long, value_name = "COUNT")]
    pub repetitions: Option<u32>,
    /// Existing topic to use instead of a new topic per cell
    #[arg(long, value_name = "NAME")]
    pub topic: Option<String>,
    /// Duration of the load on a newly started broker before the first cell
    #[arg(skip)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub broker_warm_up: Option<Duration>,
    /// Length of the load before each measured window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub warm_up: Option<Duration>,
    /// Length of each measured window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub hold: Option<Duration>,
    /// Longest wait for late acknowledgements
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub drain: Option<Duration>,
    /// Values of the sweep.
    #[command(flatten)]
    pub sweep: SweepGridOverrides,
}

/// Values that replace those of the `sweep` table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Args)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SweepGridOverrides {
    /// Sweeps: record sizes in bytes, for example 100,1k
    #[arg(long = "record-sizes", value_name = "BYTES", value_parser = parse_count,
          value_delimiter = ',')]
    pub record_sizes_bytes: Option<Vec<u64>>,
    /// Sweeps: target rates in records per second, for example 1k,5k
    #[arg(long = "target-rates", value_name = "RECORDS_PER_S", value_parser = parse_count,
          value_delimiter = ',')]
    pub target_rates_per_s: Option<Vec<u64>>,
    /// Sweeps: maximum bytes per fetch request and partition
    #[arg(long = "fetch-sizes", value_name = "BYTES", value_parser = parse_count,
          value_delimiter = ',')]
    pub fetch_sizes_bytes: Option<Vec<u64>>,
    /// Sweeps and proxy-overhead: records per cell
    ///
    /// In a sweep, the number of records that each consumer reads. In proxy-overhead, the number of
    /// records that each cell writes and reads.
    #[arg(id = "records", long, value_name = "COUNT", value_parser = parse_count)]
    pub consumer_records: Option<u64>,
    /// Maximum rate of a producer cell in MiB/s
    #[arg(skip)]
    pub mib_per_s_max: Option<u64>,
    /// Run Apache Kafka's performance tools on the same cells as well
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub kafka_tools: Option<bool>,
}

impl PlanText for SweepPlan {
    type Overrides = SweepOverrides;

    fn tables(&self) -> Vec<&SweepOverrides> {
        vec![&self.quick]
    }

    fn replace(&mut self, new: SweepOverrides) {
        replace_fields!(self, new; repetitions, topic, broker_warm_up, warm_up, hold, drain);
        replace_fields!(self.sweep, new.sweep; record_sizes_bytes, target_rates_per_s,
            fetch_sizes_bytes, consumer_records, mib_per_s_max, kafka_tools);
    }

    fn require(mut self, rules: &Rules<'_>) -> Result<Self, PlanError> {
        rules.at_least_one("repetitions", self.repetitions)?;
        self.workload.require(rules, self.hold)?;
        let sweep = &mut self.sweep;
        let holds = !sweep.producer_points().is_empty() || !sweep.fetch_sizes_bytes.is_empty();
        let remedy = "set record_sizes_bytes and target_rates_per_s, or fetch_sizes_bytes";
        rules.hold(holds, "sweep", "{}", remedy)?;
        for (key, values) in [
            ("sweep.record_sizes_bytes", &mut sweep.record_sizes_bytes),
            ("sweep.target_rates_per_s", &mut sweep.target_rates_per_s),
            ("sweep.fetch_sizes_bytes", &mut sweep.fetch_sizes_bytes),
        ] {
            values.sort_unstable();
            rules.within(key, values, 1..=MAX, "use numbers from 1 to 100000000")?;
        }
        for (key, value) in [
            ("sweep.consumer_records", sweep.consumer_records),
            ("sweep.consumer_record_bytes", sweep.consumer_record_bytes),
        ] {
            rules.within(key, &[value], 1..=MAX, "use a number from 1 to 100000000")?;
        }
        Ok(self)
    }
}

impl Valid<SweepPlan> {
    /// Returns the plan of an A/A test: the same cells as two variants that take turns.
    #[must_use]
    pub fn aa_test(self) -> Self {
        self.map(|plan| {
            plan.aa_test = true;
            plan.sweep.kafka_tools = false;
        })
    }
}

impl SweepGrid {
    /// Returns the producer cells, record sizes outermost: bytes per record and records per second.
    pub(crate) fn producer_points(&self) -> Vec<(u64, u64)> {
        let sizes = self.record_sizes_bytes.iter();
        sizes
            .flat_map(|size| self.target_rates_per_s.iter().map(|rate| (*size, *rate)))
            .collect()
    }

    /// Returns the producer cells within the maximum data rate.
    pub(crate) fn measured_producer_points(&self) -> impl Iterator<Item = (u64, u64)> {
        let max = self.mib_per_s_max.map_or(u64::MAX, |mib| mib << 20);
        let points = self.producer_points().into_iter();
        points.filter(move |(size, rate)| size.saturating_mul(*rate) <= max)
    }
}

/// Maximum of every number: with default limits Kafka accepts no larger record, and reading more
/// records takes too long.
const MAX: u64 = 100_000_000;
