//! The plan of a comparison of client libraries: which libraries, cells and settings.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::profile::Profile;
use crate::plan::PlanError;
use crate::plan::read::{bytes, duration, from_toml, settle, some_bytes, some_duration};

/// A checked plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibrariesPlan {
    /// Name, as in `weir bench run NAME`.
    pub name: String,
    /// Heading of the report.
    pub title: String,
    /// What the run is meant to answer.
    pub question: String,
    /// Drivers by name; the first is the one that ratios refer to.
    pub libraries: Vec<String>,
    /// Further drivers, each `NAME=COMMAND`.
    #[serde(default)]
    pub drivers: Vec<String>,
    /// Settings, start states and order.
    pub profile: Profile,
    /// Bytes of each value.
    pub payloads_bytes: Vec<u64>,
    /// Records of a repetition.
    pub bursts: Vec<u64>,
    /// Patterns of cell names, in the order in which they are to run.
    pub cells: Vec<String>,
    /// Times each cell runs.
    pub repetitions: u32,
    /// More bytes of values than this in a repetition make a cell a big one.
    #[serde(deserialize_with = "bytes")]
    pub big_bytes: u64,
    /// Times that big cells run; 0: they are left out.
    pub big_repetitions: u32,
    /// Records of a burst there and back.
    pub roundtrip_records: u64,
    /// Rates there and back.
    pub rates_per_s: Vec<u64>,
    /// Length of a repetition with a rate.
    #[serde(deserialize_with = "duration")]
    pub open_hold: Duration,
    /// Rates that would be more are left out.
    #[serde(deserialize_with = "bytes")]
    pub open_bytes_per_s_max: u64,
    /// 0, 1 or -1.
    pub acks: i64,
    /// Of the random values; the same for all libraries.
    pub seed: u64,
    /// First part of topic names.
    pub topic_prefix: String,
    /// How topic names are made; without it the profile's way.
    #[serde(default)]
    pub topic_template: Option<String>,
    /// Topics never take more.
    #[serde(deserialize_with = "bytes")]
    pub disk_cap: u64,
    /// Time for a command, beyond what the amount of data excuses.
    #[serde(deserialize_with = "duration")]
    pub command_timeout: Duration,
    /// Cells that have not begun by then are left out.
    #[serde(default, deserialize_with = "some_duration")]
    pub time_limit: Option<Duration>,
    /// Compare the values of what was read with what was to be written.
    #[serde(default)]
    pub verify: bool,
    /// The first library twice, as two drivers.
    #[serde(default)]
    pub null_test: bool,
    /// Of each driver, before anything is measured.
    pub warm_up: WarmUpPlan,
    /// What `--quick` changes.
    #[serde(default)]
    pub quick: LibrariesOverrides,
}

/// How drivers get warm.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmUpPlan {
    /// Of each round; 0: no warm-up.
    pub records: u64,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// At least so many rounds.
    pub rounds_min: u32,
    /// At most so many.
    pub rounds_max: u32,
    /// Settled when two rounds in a row differ by no more.
    pub within_share: f64,
}

/// Values that take the place of a plan's own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LibrariesOverrides {
    /// Drivers by name.
    pub libraries: Option<Vec<String>>,
    /// Further drivers.
    pub drivers: Option<Vec<String>>,
    /// Settings, start states and order.
    pub profile: Option<Profile>,
    /// Bytes of each value.
    pub payloads_bytes: Option<Vec<u64>>,
    /// Records of a repetition.
    pub bursts: Option<Vec<u64>>,
    /// Patterns of cell names.
    pub cells: Option<Vec<String>>,
    /// Times each cell runs.
    pub repetitions: Option<u32>,
    /// Times that big cells run.
    pub big_repetitions: Option<u32>,
    /// Rates there and back.
    pub rates_per_s: Option<Vec<u64>>,
    /// Length of a repetition with a rate.
    #[serde(deserialize_with = "some_duration")]
    pub open_hold: Option<Duration>,
    /// 0, 1 or -1.
    pub acks: Option<i64>,
    /// Of the random values.
    pub seed: Option<u64>,
    /// First part of topic names.
    pub topic_prefix: Option<String>,
    /// How topic names are made.
    pub topic_template: Option<String>,
    /// Topics never take more.
    #[serde(deserialize_with = "some_bytes")]
    pub disk_cap: Option<u64>,
    /// Time for a command.
    #[serde(deserialize_with = "some_duration")]
    pub command_timeout: Option<Duration>,
    /// Cells that have not begun by then are left out.
    #[serde(deserialize_with = "some_duration")]
    pub time_limit: Option<Duration>,
    /// Compare values.
    pub verify: Option<bool>,
    /// The first library twice.
    pub null_test: Option<bool>,
}

impl LibrariesPlan {
    /// Reads a plan; `file` is the name that errors carry.
    ///
    /// # Errors
    /// [`PlanError`] if it is not a plan.
    pub fn parse(text: &str, file: &str) -> Result<Self, PlanError> {
        let plan: Self = from_toml(text, file)?;
        plan.clone().with(&plan.quick, file)?;
        plan.with(&LibrariesOverrides::default(), file)
    }

    /// The plan that is part of the program.
    ///
    /// # Errors
    /// Never, as the tests show; the type is that of other plans.
    pub fn built_in() -> Result<Self, PlanError> {
        Self::parse(BUILT_IN_TEXT, BUILT_IN_FILE)
    }

    /// The plan with some values replaced.
    ///
    /// # Errors
    /// [`PlanError::Value`] if a new value makes no sense.
    pub fn with(mut self, overrides: &LibrariesOverrides, file: &str) -> Result<Self, PlanError> {
        let new = overrides.clone();
        self.libraries = new.libraries.unwrap_or(self.libraries);
        self.drivers = new.drivers.unwrap_or(self.drivers);
        self.profile = new.profile.unwrap_or(self.profile);
        self.payloads_bytes = new.payloads_bytes.unwrap_or(self.payloads_bytes);
        self.bursts = new.bursts.unwrap_or(self.bursts);
        self.cells = new.cells.unwrap_or(self.cells);
        self.repetitions = new.repetitions.unwrap_or(self.repetitions);
        self.big_repetitions = new.big_repetitions.unwrap_or(self.big_repetitions);
        self.rates_per_s = new.rates_per_s.unwrap_or(self.rates_per_s);
        self.open_hold = new.open_hold.unwrap_or(self.open_hold);
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
        let first_wrong = |values: &[u64], most: u64| {
            let wrong = values.iter().find(|value| !(1..=most).contains(*value));
            wrong.map_or_else(none, u64::to_string)
        };
        let all_in =
            |values: &[u64], most: u64| values.iter().all(|value| (1..=most).contains(value));
        let rules: [(bool, &'static str, String, &'static str); 10] = [
            (
                self.libraries.is_empty() && self.drivers.is_empty(),
                "libraries",
                none(),
                "name at least one",
            ),
            (
                self.payloads_bytes.is_empty() || !all_in(&self.payloads_bytes, PAYLOAD_MAX),
                "payloads_bytes",
                first_wrong(&self.payloads_bytes, PAYLOAD_MAX),
                "give 1 to 10000000",
            ),
            (
                self.bursts.is_empty() || !all_in(&self.bursts, RECORDS_MAX),
                "bursts",
                first_wrong(&self.bursts, RECORDS_MAX),
                "give 1 to 100000000",
            ),
            (
                !all_in(&self.rates_per_s, RATE_MAX),
                "rates_per_s",
                first_wrong(&self.rates_per_s, RATE_MAX),
                "give 1 to 1000000; bursts are measured anyway",
            ),
            (
                self.repetitions == 0,
                "repetitions",
                "0".to_owned(),
                "give at least 1",
            ),
            (
                !(1..=RECORDS_MAX).contains(&self.roundtrip_records),
                "roundtrip_records",
                self.roundtrip_records.to_string(),
                "give 1 to 100000000",
            ),
            (
                !(0.1..=HOLD_S_MAX).contains(&self.open_hold.as_secs_f64()),
                "open_hold",
                format!("{}s", self.open_hold.as_secs_f64()),
                "give 100ms to 1h",
            ),
            (
                !(-1..=1).contains(&self.acks),
                "acks",
                self.acks.to_string(),
                "give 0, 1 or -1 for all",
            ),
            (
                self.seed > SEED_MAX,
                "seed",
                self.seed.to_string(),
                "give at most 2^53",
            ),
            (
                warm_up.rounds_min == 0 || warm_up.rounds_min > warm_up.rounds_max,
                "warm_up.rounds_min",
                warm_up.rounds_min.to_string(),
                "give 1 to rounds_max",
            ),
        ];
        let broken = rules.into_iter().find(|(broken, ..)| *broken);
        settle(
            broken.map(|(_, key, value, remedy)| (key, value, remedy)),
            file,
        )
    }

    /// All that has to be the same in a run that goes on and in its beginning, by name.
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
            ("payloads_bytes", list(&self.payloads_bytes)),
            ("bursts", list(&self.bursts)),
            ("cells", self.cells.join(" ")),
            ("repetitions", self.repetitions.to_string()),
            ("big_bytes", self.big_bytes.to_string()),
            ("big_repetitions", self.big_repetitions.to_string()),
            ("roundtrip_records", self.roundtrip_records.to_string()),
            ("rates_per_s", list(&self.rates_per_s)),
            ("open_hold_s", self.open_hold.as_secs_f64().to_string()),
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

/// File of the plan that is part of the program.
pub const BUILT_IN_FILE: &str = "client-libraries.toml";
/// Its text.
pub const BUILT_IN_TEXT: &str = include_str!("../../../../plans/client-libraries.toml");
const PAYLOAD_MAX: u64 = 10_000_000;
const RECORDS_MAX: u64 = 100_000_000;
const RATE_MAX: u64 = 1_000_000;
const HOLD_S_MAX: f64 = 3600.0;
const SEED_MAX: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_plan_is_the_whole_grid() {
        let plan = LibrariesPlan::built_in().unwrap();
        assert_eq!(plan.name, "client-libraries");
        assert_eq!(plan.libraries[0], "java");
        assert_eq!(plan.profile, Profile::Fair);
        assert_eq!((plan.payloads_bytes.len(), plan.bursts.len()), (5, 4));
        assert!(plan.repetitions >= 20 && plan.big_repetitions == 0);
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
        assert_eq!(error, "command line: acks = 2: give 0, 1 or -1 for all");
        let text = BUILT_IN_TEXT.replacen("seed = 1", "sed = 1", 1);
        let error = LibrariesPlan::parse(&text, "my.toml").unwrap_err();
        assert!(error.to_string().contains("unknown field `sed`"), "{error}");
    }

    #[test]
    fn what_differs_shows_in_the_identity() {
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
