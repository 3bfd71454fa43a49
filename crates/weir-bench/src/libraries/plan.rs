//! Plans that compare client libraries: libraries, cells and settings.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::profile::Profile;
use crate::experiment::plan_file::{
    bytes, duration, parse_whole_rate, replace_fields, some_bytes, some_duration,
};
use crate::experiment::run_dir::list;
use crate::plan::{PlanError, PlanText, Rules};
use weir_load::units::{parse_bytes, parse_count, parse_duration};

/// Plan of a comparison of client libraries.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LibrariesPlan {
    /// Name, as in `weir bench run NAME` and in the directories of runs.
    pub(crate) name: String,
    /// Title of reports.
    pub(crate) title: String,
    /// Question that the plan answers.
    pub(crate) question: String,
    /// Drivers by name; ratios are relative to the first.
    pub(crate) libraries: Vec<String>,
    /// `true` if the user did not name these libraries: they are those of the built-in plan.
    #[serde(skip)]
    pub(crate) is_default_choice: bool,
    /// Additional drivers, each `NAME=COMMAND`.
    #[serde(default)]
    pub(crate) drivers: Vec<String>,
    pub(crate) profile: Profile,
    /// Sizes of the values.
    pub(crate) value_sizes_bytes: Vec<u64>,
    /// Numbers of records per repetition.
    pub(crate) burst_records: Vec<u64>,
    /// Patterns of cell names, in the order to run them.
    pub cells: Vec<String>,
    pub(crate) repetitions: u32,
    /// Bytes of values per repetition above which a cell is large.
    #[serde(deserialize_with = "bytes")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) large_cell_bytes: u64,
    /// Number of times large cells run; 0: they are skipped.
    pub(crate) large_cell_repetitions: u32,
    /// Records of a copy, and of a round-trip burst.
    pub(crate) roundtrip_records: u64,
    /// Round-trip rates in records per second.
    pub(crate) rates_per_s: Vec<u64>,
    /// Length of a repetition with a rate.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) open_loop_hold: Duration,
    /// Maximum data rate of an open loop; cells above it are skipped.
    #[serde(deserialize_with = "bytes")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) open_bytes_per_s_max: u64,
    /// Acknowledgements: 0, 1 or -1.
    pub(crate) acks: i64,
    pub(crate) seed: u64,
    /// First part of topic names.
    pub(crate) topic_prefix: String,
    /// Template of topic names; default: that of the profile.
    #[serde(default)]
    pub(crate) topic_template: Option<String>,
    /// Maximum disk space of the topics.
    #[serde(deserialize_with = "bytes")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) disk_cap: u64,
    /// Base timeout of a command; scaled with the amount of data.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) command_timeout: Duration,
    /// Time after which no further cell is started.
    #[serde(default, deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) time_limit: Option<Duration>,
    /// Compares the values that were read with those that were written.
    #[serde(default)]
    pub(crate) verify: bool,
    /// A/A test: runs the first library as two drivers.
    #[serde(default)]
    pub(crate) aa_test: bool,
    pub(crate) warm_up: WarmUpPlan,
    #[serde(default)]
    pub(crate) quick: LibrariesOverrides,
}

/// Warm-up of the drivers.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WarmUpPlan {
    /// Records per round; 0: no warm-up.
    pub(crate) records: u64,
    /// Bytes per value.
    pub(crate) value_bytes: u64,
    /// Minimum number of rounds.
    pub(crate) rounds_min: u32,
    /// Maximum number of rounds.
    pub(crate) rounds_max: u32,
    /// Maximum difference between two consecutive rounds in the steady state, as a share.
    pub(crate) within_share: f64,
}

/// Values that replace those of a plan.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Args)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Options of client-libraries")]
pub struct LibrariesOverrides {
    /// Repetitions of each cell
    #[arg(long, value_name = "COUNT")]
    pub repetitions: Option<u32>,
    /// Round-trip rates in records per second
    #[arg(id = "rates", long, value_name = "RECORDS_PER_S", value_parser = parse_whole_rate,
          value_delimiter = ',')]
    pub rates_per_s: Option<Vec<u64>>,
    /// Length of a repetition with a rate
    #[arg(id = "hold", long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub open_loop_hold: Option<Duration>,
    /// Run the first library as two drivers (A/A test)
    #[arg(
        id = "aa_test",
        long = "aa-test",
        num_args = 0,
        default_missing_value = "true"
    )]
    pub aa_test: Option<bool>,
    /// Libraries to compare; the first one is the reference of all ratios
    ///
    /// java, librdkafka, franz-go, confluent-kafka, aiokafka, kafkajs, or all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub libraries: Option<Vec<String>>,
    /// Additional driver (docs/drivers.md), started by a shell; repeatable
    #[arg(long = "driver", value_name = "NAME=COMMAND")]
    pub drivers: Option<Vec<String>>,
    /// Client settings: fair, legacy or default-settings
    ///
    /// fair: equal settings in all libraries; legacy: settings of the published comparison;
    /// default-settings: the defaults of each library.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,
    /// Cells to run, in this order
    ///
    /// A cell is written as WORK.MODE/BYTESxRECORDS, or as roundtrip.open/BYTES@RATE; * matches
    /// anything. Modes of produce: cold, metadata, warm; of consume and copy: group, assign; of
    /// roundtrip: burst, open. Profile legacy has produce.legacy.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub cells: Option<Vec<String>>,
    /// Sizes of values in bytes, for example 100,1k
    #[arg(long = "value-sizes", value_name = "BYTES", value_parser = parse_count,
          value_delimiter = ',')]
    pub value_sizes_bytes: Option<Vec<u64>>,
    /// Numbers of records per repetition, for example 100,10k
    #[arg(long, value_name = "COUNTS", value_parser = parse_count, value_delimiter = ',')]
    pub burst_records: Option<Vec<u64>>,
    /// Repetitions of cells above 500 MB per repetition, which are skipped otherwise
    #[arg(long, value_name = "COUNT")]
    pub large_cell_repetitions: Option<u32>,
    /// Acknowledgements to wait for: 0, 1, or -1 for all
    #[arg(long, value_name = "ACKS", allow_negative_numbers = true)]
    pub acks: Option<i64>,
    /// Seed of the random values
    #[arg(skip)]
    pub seed: Option<u64>,
    /// Compare every key and value read with the expected one
    ///
    /// Runs once per cell and library and is not part of the results.
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub verify: Option<bool>,
    /// Maximum disk space of the topics of the run, for example 20GB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    #[serde(deserialize_with = "some_bytes")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub disk_cap: Option<u64>,
    /// Base timeout of a driver command; scaled with the amount of data
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub command_timeout: Option<Duration>,
    /// Time after which no further cell starts
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub time_limit: Option<Duration>,
    /// Prefix of topic names
    #[arg(long, value_name = "TEXT")]
    pub topic_prefix: Option<String>,
    /// Template of topic names
    ///
    /// Placeholders: {prefix}, {run}, {cell}, {work}, {mode}, {name}, {packets}, {length}, {rate},
    /// {repetition}.
    #[arg(long, value_name = "TEXT")]
    pub topic_template: Option<String>,
}

impl PlanText for LibrariesPlan {
    type Overrides = LibrariesOverrides;

    fn tables(&self) -> Vec<&LibrariesOverrides> {
        vec![&self.quick]
    }

    fn replace(&mut self, new: LibrariesOverrides) {
        self.is_default_choice &= new.libraries.is_none();
        replace_fields!(self, new; libraries, drivers, profile, value_sizes_bytes, burst_records,
            cells, repetitions, large_cell_repetitions, rates_per_s, open_loop_hold, acks, seed,
            topic_prefix, topic_template, disk_cap, command_timeout, time_limit, verify, aa_test);
    }

    fn require(self, rules: &Rules<'_>) -> Result<Self, PlanError> {
        if self.drivers.is_empty() {
            rules.not_empty("libraries", &self.libraries, "name at least one")?;
        }
        let (records, sizes, bursts) = (
            [self.roundtrip_records],
            &self.value_sizes_bytes,
            &self.burst_records,
        );
        let remedy = "use 1 to 10000000";
        rules.not_empty("value_sizes_bytes", sizes, remedy)?;
        rules.within("value_sizes_bytes", sizes, 1..=10_000_000, remedy)?;
        let remedy = "use 1 to 100000000";
        rules.not_empty("burst_records", bursts, remedy)?;
        rules.within("burst_records", bursts, 1..=100_000_000, remedy)?;
        rules.within("roundtrip_records", &records, 1..=100_000_000, remedy)?;
        let remedy = "use 1 to 1000000; bursts are always measured";
        rules.within("rates_per_s", &self.rates_per_s, 1..=1_000_000, remedy)?;
        rules.at_least_one("repetitions", self.repetitions)?;
        let hold_s = self.open_loop_hold.as_secs_f64();
        let holds = (0.1..=3600.0).contains(&hold_s);
        let (hold, remedy) = (format!("{hold_s}s"), "use 100ms to 1h");
        rules.hold(holds, "open_loop_hold", hold, remedy)?;
        let holds = (-1..=1).contains(&self.acks);
        rules.hold(holds, "acks", self.acks, "use 0, 1 or -1 for all")?;
        rules.within("seed", &[self.seed], 0..=1 << 53, "use at most 2^53")?;
        let rounds = self.warm_up.rounds_min;
        let holds = (1..=self.warm_up.rounds_max).contains(&rounds);
        rules.hold(holds, "warm_up.rounds_min", rounds, "use 1 to rounds_max")?;
        Ok(self)
    }
}

impl LibrariesPlan {
    /// Returns the built-in plan.
    #[cfg(test)]
    pub(super) fn built_in() -> Result<crate::plan::Valid<Self>, PlanError> {
        match crate::plan::AnyPlan::built_in("client-libraries") {
            Some(Ok(crate::plan::AnyPlan::Libraries(plan))) => Ok(plan),
            other => panic!("{other:?}"),
        }
    }

    /// Returns all values that must not change when a run is resumed, by name.
    pub(super) fn identity(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let mut set = |name: &str, value: &dyn Display| {
            all.insert(name.to_owned(), value.to_string());
        };
        set("name", &self.name);
        set("libraries", &self.libraries.join(" "));
        set("drivers", &self.drivers.join(" ; "));
        set("profile", &self.profile.name());
        set("value_sizes_bytes", &list(&self.value_sizes_bytes));
        set("burst_records", &list(&self.burst_records));
        set("cells", &self.cells.join(" "));
        set("repetitions", &self.repetitions);
        set("large_cell_bytes", &self.large_cell_bytes);
        set("large_cell_repetitions", &self.large_cell_repetitions);
        set("roundtrip_records", &self.roundtrip_records);
        set("rates_per_s", &list(&self.rates_per_s));
        set("open_loop_hold_s", &self.open_loop_hold.as_secs_f64());
        set("open_bytes_per_s_max", &self.open_bytes_per_s_max);
        set("acks", &self.acks);
        set("seed", &self.seed);
        set("topic_prefix", &self.topic_prefix);
        let template = self.topic_template.as_deref().unwrap_or_default();
        set("topic_template", &template);
        set("verify", &self.verify);
        set("aa_test", &self.aa_test);
        let warm_up = &self.warm_up;
        let warm_up = format!(
            "{} records of {} bytes, {} to {} rounds within {}",
            warm_up.records,
            warm_up.value_bytes,
            warm_up.rounds_min,
            warm_up.rounds_max,
            warm_up.within_share
        );
        set("warm_up", &warm_up);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Valid;

    const BUILT_IN_TEXT: &str = include_str!("../../../../plans/client-libraries.toml");

    #[test]
    fn built_in_plan_has_the_full_grid() {
        let plan = LibrariesPlan::built_in().unwrap();
        assert_eq!(plan.name, "client-libraries");
        assert_eq!(plan.libraries[0], "java");
        assert_eq!(plan.profile, Profile::Fair);
        assert_eq!(
            (plan.value_sizes_bytes.len(), plan.burst_records.len()),
            (5, 4)
        );
        assert!(plan.repetitions >= 20 && plan.large_cell_repetitions == 0);
        assert_eq!(plan.disk_cap, 20_000_000_000);
        let quick = plan.quick("quick").unwrap();
        assert!(quick.repetitions < plan.repetitions);
        assert!(quick.time_limit < Some(Duration::from_secs(300)));
    }

    #[test]
    fn errors_name_file_key_value_and_remedy() {
        let plan = LibrariesPlan::built_in().unwrap();
        let none = LibrariesOverrides {
            acks: Some(2),
            ..LibrariesOverrides::default()
        };
        let error = plan.with(none, "command line").unwrap_err().to_string();
        assert_eq!(error, "command line: acks = 2: use 0, 1 or -1 for all");
        let text = BUILT_IN_TEXT.replacen("seed = 1", "sed = 1", 1);
        let error = Valid::<LibrariesPlan>::parse(&text, "my.toml", &|_| None).unwrap_err();
        assert!(error.to_string().contains("unknown field `sed`"), "{error}");
    }

    #[test]
    fn identity_shows_differences() {
        let plan = LibrariesPlan::built_in().unwrap();
        let fewer = LibrariesOverrides {
            repetitions: Some(3),
            ..LibrariesOverrides::default()
        };
        let other = plan.clone().with(fewer, "command line").unwrap();
        let (a, b) = (plan.identity(), other.identity());
        let differing: Vec<_> = a
            .iter()
            .filter(|(name, value)| b[*name] != **value)
            .collect();
        assert_eq!(differing.len(), 1);
        assert_eq!(differing[0].0, "repetitions");
    }
}
