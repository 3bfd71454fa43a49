//! Plans that compare client libraries: libraries, cells and settings.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::profile::Profile;
use crate::plan::PlanError;
use crate::plan::read::{bytes, duration, from_toml, reject_violation, some_bytes, some_duration};

/// A checked plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibrariesPlan {
    /// Name, as in `weir bench run NAME`.
    pub name: String,
    /// Title of the report.
    pub title: String,
    /// Question that the run answers.
    pub question: String,
    /// Drivers by name; ratios are relative to the first.
    pub libraries: Vec<String>,
    /// Additional drivers, each `NAME=COMMAND`.
    #[serde(default)]
    pub drivers: Vec<String>,
    /// Settings, start states and order.
    pub profile: Profile,
    /// Sizes of the values.
    pub value_sizes_bytes: Vec<u64>,
    /// Numbers of records per repetition.
    pub burst_records: Vec<u64>,
    /// Patterns of cell names, in the order to run them.
    pub cells: Vec<String>,
    /// Number of times each cell runs.
    pub repetitions: u32,
    /// Bytes of values per repetition above which a cell is large.
    #[serde(deserialize_with = "bytes")]
    pub large_cell_bytes: u64,
    /// Number of times large cells run; 0: they are skipped.
    pub large_cell_repetitions: u32,
    /// Records of a round-trip burst.
    pub roundtrip_records: u64,
    /// Round-trip rates in records per second.
    pub rates_per_s: Vec<u64>,
    /// Length of a repetition with a rate.
    #[serde(deserialize_with = "duration")]
    pub open_loop_hold: Duration,
    /// Maximum data rate of an open loop; cells above it are skipped.
    #[serde(deserialize_with = "bytes")]
    pub open_bytes_per_s_max: u64,
    /// Acknowledgements: 0, 1 or -1.
    pub acks: i64,
    /// Seed of the random values; the same for all libraries.
    pub seed: u64,
    /// First part of topic names.
    pub topic_prefix: String,
    /// Template of topic names; default: that of the profile.
    #[serde(default)]
    pub topic_template: Option<String>,
    /// Maximum disk space of the topics.
    #[serde(deserialize_with = "bytes")]
    pub disk_cap: u64,
    /// Base timeout of a command; scaled with the amount of data.
    #[serde(deserialize_with = "duration")]
    pub command_timeout: Duration,
    /// Time after which no further cell is started.
    #[serde(default, deserialize_with = "some_duration")]
    pub time_limit: Option<Duration>,
    /// Compares the values that were read with those that were written.
    #[serde(default)]
    pub verify: bool,
    /// A/A test: runs the first library as two drivers.
    #[serde(default)]
    pub null_test: bool,
    /// Warm-up of each driver, before the first cell.
    pub warm_up: WarmUpPlan,
    /// Values that `--quick` replaces.
    #[serde(default)]
    pub quick: LibrariesOverrides,
}

/// Warm-up of the drivers.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmUpPlan {
    /// Records per round; 0: no warm-up.
    pub records: u64,
    /// Bytes per value.
    pub value_bytes: u64,
    /// Minimum number of rounds.
    pub rounds_min: u32,
    /// Maximum number of rounds.
    pub rounds_max: u32,
    /// Maximum difference between two consecutive rounds in the steady state, as a share.
    pub within_share: f64,
}

/// Values that replace those of a plan.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LibrariesOverrides {
    /// Drivers by name.
    pub libraries: Option<Vec<String>>,
    /// Additional drivers.
    pub drivers: Option<Vec<String>>,
    /// Settings, start states and order.
    pub profile: Option<Profile>,
    /// Sizes of the values.
    pub value_sizes_bytes: Option<Vec<u64>>,
    /// Numbers of records per repetition.
    pub burst_records: Option<Vec<u64>>,
    /// Patterns of cell names.
    pub cells: Option<Vec<String>>,
    /// Number of times each cell runs.
    pub repetitions: Option<u32>,
    /// Number of times large cells run.
    pub large_cell_repetitions: Option<u32>,
    /// Round-trip rates in records per second.
    pub rates_per_s: Option<Vec<u64>>,
    /// Length of a repetition with a rate.
    #[serde(deserialize_with = "some_duration")]
    pub open_loop_hold: Option<Duration>,
    /// Acknowledgements: 0, 1 or -1.
    pub acks: Option<i64>,
    /// Seed of the random values.
    pub seed: Option<u64>,
    /// First part of topic names.
    pub topic_prefix: Option<String>,
    /// Template of topic names.
    pub topic_template: Option<String>,
    /// Maximum disk space of the topics.
    #[serde(deserialize_with = "some_bytes")]
    pub disk_cap: Option<u64>,
    /// Base timeout of a command.
    #[serde(deserialize_with = "some_duration")]
    pub command_timeout: Option<Duration>,
    /// Time after which no further cell is started.
    #[serde(deserialize_with = "some_duration")]
    pub time_limit: Option<Duration>,
    /// Compares values.
    pub verify: Option<bool>,
    /// A/A test: runs the first library as two drivers.
    pub null_test: Option<bool>,
}

impl LibrariesPlan {
    /// Parses a plan. `file` is its name in errors.
    ///
    /// # Errors
    /// [`PlanError`] if the text is not a valid plan.
    pub fn parse(text: &str, file: &str) -> Result<Self, PlanError> {
        let plan: Self = from_toml(text, file)?;
        plan.clone().with(&plan.quick, file)?;
        plan.with(&LibrariesOverrides::default(), file)
    }

    /// Returns the built-in plan.
    ///
    /// # Errors
    /// Never, which a test ensures; the signature matches that of other plans.
    pub fn built_in() -> Result<Self, PlanError> {
        Self::parse(BUILT_IN_TEXT, BUILT_IN_FILE)
    }

    /// Returns the plan with some values replaced. `file` is the name in errors.
    ///
    /// # Errors
    /// [`PlanError::Value`] if a new value is invalid.
    pub fn with(mut self, overrides: &LibrariesOverrides, file: &str) -> Result<Self, PlanError> {
        let new = overrides.clone();
        self.libraries = new.libraries.unwrap_or(self.libraries);
        self.drivers = new.drivers.unwrap_or(self.drivers);
        self.profile = new.profile.unwrap_or(self.profile);
        self.value_sizes_bytes = new.value_sizes_bytes.unwrap_or(self.value_sizes_bytes);
        self.burst_records = new.burst_records.unwrap_or(self.burst_records);
        self.cells = new.cells.unwrap_or(self.cells);
        self.repetitions = new.repetitions.unwrap_or(self.repetitions);
        self.large_cell_repetitions = new
            .large_cell_repetitions
            .unwrap_or(self.large_cell_repetitions);
        self.rates_per_s = new.rates_per_s.unwrap_or(self.rates_per_s);
        self.open_loop_hold = new.open_loop_hold.unwrap_or(self.open_loop_hold);
        self.acks = new.acks.unwrap_or(self.acks);
        self.seed = new.seed.unwrap_or(self.seed);
        self.topic_prefix = new.topic_prefix.unwrap_or(self.topic_prefix);
        self.topic_template = new.topic_template.or(self.topic_template);
        self.disk_cap = new.disk_cap.unwrap_or(self.disk_cap);
        self.command_timeout = new.command_timeout.unwrap_or(self.command_timeout);
        self.time_limit = new.time_limit.or(self.time_limit);
        self.verify = new.verify.unwrap_or(self.verify);
        self.null_test = new.null_test.unwrap_or(self.null_test);
        self.check(file)?;
        Ok(self)
    }

    fn check(&self, file: &str) -> Result<(), PlanError> {
        let warm_up = self.warm_up;
        let none = || "[]".to_owned();
        let first_wrong = |values: &[u64], max: u64| {
            let wrong = values.iter().find(|value| !(1..=max).contains(*value));
            wrong.map_or_else(none, u64::to_string)
        };
        let all_in =
            |values: &[u64], max: u64| values.iter().all(|value| (1..=max).contains(value));
        let rules: [(bool, &'static str, String, &'static str); 10] = [
            (
                self.libraries.is_empty() && self.drivers.is_empty(),
                "libraries",
                none(),
                "name at least one",
            ),
            (
                self.value_sizes_bytes.is_empty()
                    || !all_in(&self.value_sizes_bytes, VALUE_BYTES_MAX),
                "value_sizes_bytes",
                first_wrong(&self.value_sizes_bytes, VALUE_BYTES_MAX),
                "use 1 to 10000000",
            ),
            (
                self.burst_records.is_empty() || !all_in(&self.burst_records, RECORDS_MAX),
                "burst_records",
                first_wrong(&self.burst_records, RECORDS_MAX),
                "use 1 to 100000000",
            ),
            (
                !all_in(&self.rates_per_s, RATE_MAX),
                "rates_per_s",
                first_wrong(&self.rates_per_s, RATE_MAX),
                "use 1 to 1000000; bursts are always measured",
            ),
            (
                self.repetitions == 0,
                "repetitions",
                "0".to_owned(),
                "use at least 1",
            ),
            (
                !(1..=RECORDS_MAX).contains(&self.roundtrip_records),
                "roundtrip_records",
                self.roundtrip_records.to_string(),
                "use 1 to 100000000",
            ),
            (
                !(0.1..=HOLD_S_MAX).contains(&self.open_loop_hold.as_secs_f64()),
                "open_loop_hold",
                format!("{}s", self.open_loop_hold.as_secs_f64()),
                "use 100ms to 1h",
            ),
            (
                !(-1..=1).contains(&self.acks),
                "acks",
                self.acks.to_string(),
                "use 0, 1 or -1 for all",
            ),
            (
                self.seed > SEED_MAX,
                "seed",
                self.seed.to_string(),
                "use at most 2^53",
            ),
            (
                warm_up.rounds_min == 0 || warm_up.rounds_min > warm_up.rounds_max,
                "warm_up.rounds_min",
                warm_up.rounds_min.to_string(),
                "use 1 to rounds_max",
            ),
        ];
        let violation = rules.into_iter().find(|(is_violated, ..)| *is_violated);
        reject_violation(
            violation.map(|(_, key, value, remedy)| (key, value, remedy)),
            file,
        )
    }

    /// Returns all values that must not change when a run is resumed, by name.
    pub(super) fn identity(&self) -> BTreeMap<String, String> {
        let list = |values: &[u64]| {
            let values: Vec<String> = values.iter().map(u64::to_string).collect();
            values.join(" ")
        };
        let warm_up = self.warm_up;
        let pairs = [
            ("name", self.name.clone()),
            ("libraries", self.libraries.join(" ")),
            ("drivers", self.drivers.join(" ; ")),
            ("profile", self.profile.name().to_owned()),
            ("value_sizes_bytes", list(&self.value_sizes_bytes)),
            ("burst_records", list(&self.burst_records)),
            ("cells", self.cells.join(" ")),
            ("repetitions", self.repetitions.to_string()),
            ("large_cell_bytes", self.large_cell_bytes.to_string()),
            (
                "large_cell_repetitions",
                self.large_cell_repetitions.to_string(),
            ),
            ("roundtrip_records", self.roundtrip_records.to_string()),
            ("rates_per_s", list(&self.rates_per_s)),
            (
                "open_loop_hold_s",
                self.open_loop_hold.as_secs_f64().to_string(),
            ),
            (
                "open_bytes_per_s_max",
                self.open_bytes_per_s_max.to_string(),
            ),
            ("acks", self.acks.to_string()),
            ("seed", self.seed.to_string()),
            ("topic_prefix", self.topic_prefix.clone()),
            (
                "topic_template",
                self.topic_template.clone().unwrap_or_default(),
            ),
            ("verify", self.verify.to_string()),
            ("null_test", self.null_test.to_string()),
            (
                "warm_up",
                format!(
                    "{} records of {} bytes, {} to {} rounds within {}",
                    warm_up.records,
                    warm_up.value_bytes,
                    warm_up.rounds_min,
                    warm_up.rounds_max,
                    warm_up.within_share
                ),
            ),
        ];
        let pairs = pairs.into_iter();
        pairs
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// File name of the built-in plan.
pub const BUILT_IN_FILE: &str = "client-libraries.toml";
/// Content of the built-in plan.
pub const BUILT_IN_TEXT: &str = include_str!("../../../../plans/client-libraries.toml");
const VALUE_BYTES_MAX: u64 = 10_000_000;
const RECORDS_MAX: u64 = 100_000_000;
const RATE_MAX: u64 = 1_000_000;
const HOLD_S_MAX: f64 = 3600.0;
const SEED_MAX: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;

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
        let quick = plan.clone().with(&plan.quick, "quick").unwrap();
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
        let error = plan.with(&none, "command line").unwrap_err().to_string();
        assert_eq!(error, "command line: acks = 2: use 0, 1 or -1 for all");
        let text = BUILT_IN_TEXT.replacen("seed = 1", "sed = 1", 1);
        let error = LibrariesPlan::parse(&text, "my.toml").unwrap_err();
        assert!(error.to_string().contains("unknown field `sed`"), "{error}");
    }

    #[test]
    fn identity_shows_differences() {
        let plan = LibrariesPlan::built_in().unwrap();
        let fewer = LibrariesOverrides {
            repetitions: Some(3),
            ..LibrariesOverrides::default()
        };
        let other = plan.clone().with(&fewer, "command line").unwrap();
        let (a, b) = (plan.identity(), other.identity());
        let differing: Vec<_> = a
            .iter()
            .filter(|(name, value)| b[*name] != **value)
            .collect();
        assert_eq!(differing.len(), 1);
        assert_eq!(differing[0].0, "repetitions");
    }
}
