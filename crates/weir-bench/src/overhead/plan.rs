//! Plans that compare proxies: subjects, load, repetitions and limits.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use weir_stats::run::ReferenceFigures;

use crate::plan::PlanError;
use crate::plan::read::{duration, from_toml, reject_violation, some_duration};

/// A checked plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverheadPlan {
    /// Name, as in `weir bench run NAME`.
    pub name: String,
    /// Title of the report.
    pub title: String,
    /// Question that the run answers.
    pub question: String,
    /// Paths from clients to the broker; the first is the reference for the others.
    pub subjects: Vec<ProxyPath>,
    /// Proxies started by the user: name and address.
    #[serde(default)]
    pub external_proxies: BTreeMap<String, String>,
    /// Number of times every cell runs; the subjects alternate.
    pub repetitions: u32,
    /// Records of each cell without a rate.
    pub records: u64,
    /// Bytes per value.
    pub record_bytes: u64,
    /// Fixed rates in records per second, in addition to the maximum rate.
    #[serde(default)]
    pub rates_per_s: Vec<u64>,
    /// Length of a cell with a fixed rate.
    #[serde(deserialize_with = "duration")]
    pub rate_hold: Duration,
    /// Time at the start of each cell that is not measured.
    #[serde(deserialize_with = "duration")]
    pub warm_up: Duration,
    /// Records written before the first repetition, so that the broker's hot paths are compiled.
    #[serde(default)]
    pub broker_warm_up_records: u64,
    /// Adds cells that read the records through each subject.
    pub consume: bool,
    /// Runs Apache Kafka's own tools in addition to Weir's clients.
    #[serde(default)]
    pub kafka_tools: bool,
    /// Producer properties, by Kafka's names.
    #[serde(default)]
    pub producer: BTreeMap<String, String>,
    /// Values that `--quick` replaces.
    #[serde(default)]
    pub quick: OverheadOverrides,
    /// Declared limits on the results.
    #[serde(default)]
    pub limits: Vec<FigureLimit>,
    /// Figures published elsewhere.
    #[serde(default)]
    pub reference: Option<ReferenceFigures>,
}

/// Path from clients to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyPath {
    /// No proxy.
    Direct,
    /// Relay that copies bytes between two sockets: the baseline.
    Relay,
    /// Weir's proxy without filters.
    PassThrough,
    /// Weir's proxy with a filter that converts every value to lower case.
    LowerCase,
}

impl ProxyPath {
    /// Returns the name in plans and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relay => "relay",
            Self::PassThrough => "pass-through",
            Self::LowerCase => "lower-case",
        }
    }
}

impl std::str::FromStr for ProxyPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [
            Self::Direct,
            Self::Relay,
            Self::PassThrough,
            Self::LowerCase,
        ]
        .into_iter()
        .find(|subject| subject.name() == text)
        .ok_or_else(|| {
            format!(
                "unknown subject \"{text}\", expected direct, relay, pass-through or lower-case"
            )
        })
    }
}

/// Declared limit on a figure of one subject, relative to another in the same repetitions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureLimit {
    /// `produce` or `consume`.
    pub side: String,
    /// Fixed rate that the limit applies to; absent: the maximum rate.
    pub rate_per_s: Option<u64>,
    /// Name of the figure.
    pub figure: String,
    /// Subject that is limited.
    pub of: String,
    /// Subject for a ratio: the limit applies to the figure divided by this subject's.
    pub relative_to: Option<String>,
    /// Subject for a difference: the limit applies to the figure minus this subject's.
    pub difference_from: Option<String>,
    /// Maximum of the estimate.
    pub at_most: Option<f64>,
    /// Minimum of the lower end of the 95 % interval.
    pub lower_bound_at_least: Option<f64>,
}

/// Values that replace those of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadOverrides {
    /// Paths from clients to the broker.
    pub subjects: Option<Vec<ProxyPath>>,
    /// Number of times every cell runs.
    pub repetitions: Option<u32>,
    /// Records of each cell without a rate.
    pub records: Option<u64>,
    /// Bytes per value.
    pub record_bytes: Option<u64>,
    /// Fixed rates in records per second.
    pub rates_per_s: Option<Vec<u64>>,
    /// Length of a cell with a fixed rate.
    #[serde(deserialize_with = "some_duration")]
    pub rate_hold: Option<Duration>,
    /// Time at the start of each cell that is not measured.
    #[serde(deserialize_with = "some_duration")]
    pub warm_up: Option<Duration>,
    /// Runs Apache Kafka's own tools in addition to Weir's clients.
    pub kafka_tools: Option<bool>,
    /// Records written before the first repetition.
    pub broker_warm_up_records: Option<u64>,
}

impl OverheadPlan {
    /// Returns the approximate duration of a run, from starting its broker to the report.
    pub fn estimated_time(&self) -> Duration {
        let unthrottled = Duration::from_secs_f64(self.records as f64 / UNTHROTTLED_PER_S);
        let sides = if self.consume { 2 } else { 1 };
        let tools = if self.kafka_tools { 2 } else { 1 };
        let paced = self.rates_per_s.len() as u32 * (self.warm_up + self.rate_hold + CELL_SETUP);
        let one = paced + sides * tools * (unthrottled + CELL_SETUP);
        let paths = (self.subjects.len() + self.external_proxies.len()) as u32;
        BROKER_START + self.repetitions * paths * one
    }

    /// Parses a plan. `file` is its name in errors.
    ///
    /// # Errors
    /// [`PlanError`] if the text is not a valid plan.
    pub fn parse(text: &str, file: &str) -> Result<Self, PlanError> {
        let plan: Self = from_toml(text, file)?;
        plan.clone().with(&plan.quick, file)?;
        plan.with(&OverheadOverrides::default(), file)
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
    pub fn with(mut self, overrides: &OverheadOverrides, file: &str) -> Result<Self, PlanError> {
        let new = overrides.clone();
        self.subjects = new.subjects.unwrap_or(self.subjects);
        self.repetitions = new.repetitions.unwrap_or(self.repetitions);
        self.records = new.records.unwrap_or(self.records);
        self.record_bytes = new.record_bytes.unwrap_or(self.record_bytes);
        self.rates_per_s = new.rates_per_s.unwrap_or(self.rates_per_s);
        self.rate_hold = new.rate_hold.unwrap_or(self.rate_hold);
        self.warm_up = new.warm_up.unwrap_or(self.warm_up);
        self.kafka_tools = new.kafka_tools.unwrap_or(self.kafka_tools);
        self.broker_warm_up_records = new
            .broker_warm_up_records
            .unwrap_or(self.broker_warm_up_records);
        self.check(file)?;
        Ok(self)
    }

    fn check(&self, file: &str) -> Result<(), PlanError> {
        let hold_s = self.rate_hold.as_secs_f64();
        let rules: [(bool, &'static str, String, &'static str); 6] = [
            (
                self.subjects.is_empty(),
                "subjects",
                "[]".to_owned(),
                "name at least one",
            ),
            (
                self.repetitions == 0,
                "repetitions",
                "0".to_owned(),
                "use at least 1",
            ),
            (
                !(1000..=RECORDS_MAX).contains(&self.records),
                "records",
                self.records.to_string(),
                "use 1000 to 100000000",
            ),
            (
                !(40..=RECORD_BYTES_MAX).contains(&self.record_bytes),
                "record_bytes",
                self.record_bytes.to_string(),
                "use 40 to 1000000",
            ),
            (
                self.rates_per_s.contains(&0),
                "rates_per_s",
                "0".to_owned(),
                "use rates above 0; the maximum rate is always measured",
            ),
            (
                self.rate_hold <= self.warm_up || hold_s > HOLD_S_MAX,
                "rate_hold",
                format!("{hold_s}s"),
                "use more than warm_up and at most one hour",
            ),
        ];
        let violation = rules.into_iter().find(|(is_violated, ..)| *is_violated);
        reject_violation(
            violation.map(|(_, key, value, remedy)| (key, value, remedy)),
            file,
        )
    }

    /// Returns the maximum rate (`None`), then each fixed rate.
    pub(super) fn rates(&self) -> impl Iterator<Item = Option<u64>> {
        std::iter::once(None).chain(self.rates_per_s.iter().copied().map(Some))
    }

    /// Returns the number of records of a cell with this rate.
    pub(super) fn records_at(&self, rate: Option<u64>) -> u64 {
        rate.map_or(self.records, |rate| {
            (rate as f64 * self.rate_hold.as_secs_f64()) as u64
        })
    }
}

/// File name of the built-in plan.
pub const BUILT_IN_FILE: &str = "proxy-overhead.toml";
/// Content of the built-in plan.
pub const BUILT_IN_TEXT: &str = include_str!("../../../../plans/proxy-overhead.toml");
const RECORDS_MAX: u64 = 100_000_000;
const RECORD_BYTES_MAX: u64 = 1_000_000;
const HOLD_S_MAX: f64 = 3600.0;

const BROKER_START: Duration = Duration::from_secs(10);
const CELL_SETUP: Duration = Duration::from_secs(3);
/// Records per second, of 1 KB each, through a proxy on a machine with 2 cores.
const UNTHROTTLED_PER_S: f64 = 80e3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_plan_has_its_reference_subjects() {
        let plan = OverheadPlan::built_in().unwrap();
        assert_eq!(plan.name, "proxy-overhead");
        assert_eq!(plan.subjects[0], ProxyPath::Direct);
        assert!(plan.repetitions >= 5 && plan.record_bytes == 1024);
        let published = plan.reference.clone().unwrap().rows;
        assert_eq!(published.len(), 3);
        assert!(
            published
                .iter()
                .all(|row| row.throughput_bit_per_s.is_some())
        );
        for limit in &plan.limits {
            let other = limit.relative_to.as_ref();
            let other = other.or(limit.difference_from.as_ref()).unwrap();
            for name in [&limit.of, other] {
                assert!(name.parse::<ProxyPath>().is_ok(), "{name}");
            }
            assert!(limit.at_most.is_some() != limit.lower_bound_at_least.is_some());
        }
        let quick = plan.clone().with(&plan.quick, "quick").unwrap();
        assert!(quick.repetitions >= 3 && quick.repetitions < plan.repetitions);
        let five_minutes = Duration::from_secs(300);
        assert!(
            quick.estimated_time() < five_minutes,
            "{:?}",
            quick.estimated_time()
        );
        assert!(
            plan.estimated_time() > five_minutes,
            "{:?}",
            plan.estimated_time()
        );
        assert_eq!(plan.records_at(Some(20_000)), 160_000);
    }

    #[test]
    fn errors_name_file_key_and_value() {
        let plan = OverheadPlan::built_in().unwrap();
        let none = OverheadOverrides {
            records: Some(5),
            ..OverheadOverrides::default()
        };
        let error = plan.with(&none, "command line").unwrap_err().to_string();
        assert_eq!(error, "command line: records = 5: use 1000 to 100000000");
        let text = BUILT_IN_TEXT.replacen("repetitions = 12", "repetition = 12", 1);
        let error = OverheadPlan::parse(&text, "my.toml")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("my.toml:"), "{error}");
        assert!(error.contains("unknown field `repetition`"), "{error}");
    }
}
