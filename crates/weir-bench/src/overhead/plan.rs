//! Plans that compare proxies: subjects, load, repetitions and limits.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use weir_stats::run::ReferenceFigures;

use crate::experiment::names::names;
use crate::experiment::plan_file::{
    NotKeyValue, duration, key_value, parse_whole_rate, replace_fields, some_duration,
};
use crate::plan::{PlanError, PlanText, Rules, Valid};
use weir_load::units::{parse_count, parse_duration};

/// Plan of a comparison of proxies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OverheadPlan {
    /// Name, as in `weir bench run NAME` and in the directories of runs.
    pub(crate) name: String,
    /// Title of reports.
    pub(crate) title: String,
    /// Question that the plan answers.
    pub(crate) question: String,
    /// Paths from clients to the broker; the first is the reference for the others.
    pub(crate) subjects: Vec<ProxyPath>,
    /// Proxies started by the user: name and address.
    #[serde(default)]
    pub(crate) external_proxies: BTreeMap<String, String>,
    /// A/A test: measures the first subject that can be started as two subjects.
    #[serde(skip)]
    pub(crate) aa_test: bool,
    /// Number of times every cell runs; the subjects alternate.
    pub(crate) repetitions: u32,
    /// Maximum number of repetitions of cells whose limit is undecided after `repetitions`.
    #[serde(default)]
    pub(crate) repetitions_max: u32,
    /// Records of each cell without a rate.
    pub(crate) records: u64,
    /// Bytes per value.
    pub(crate) record_bytes: u64,
    /// Fixed rates in records per second, in addition to the maximum rate.
    #[serde(default)]
    pub(crate) rates_per_s: Vec<u64>,
    /// Length of a cell with a fixed rate.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) rate_hold: Duration,
    /// Time at the start of each cell that is not measured.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) warm_up: Duration,
    /// Records written before the first repetition, so that the broker's hot paths are compiled.
    #[serde(default)]
    pub(crate) broker_warm_up_records: u64,
    /// Adds cells that read the records through each subject.
    pub(crate) consume: bool,
    /// Runs Apache Kafka's own tools in addition to Weir's clients.
    #[serde(default)]
    pub(crate) kafka_tools: bool,
    /// Producer properties, by Kafka's names.
    #[serde(default)]
    pub(crate) producer: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) quick: OverheadOverrides,
    #[serde(default)]
    pub(crate) limits: Vec<FigureLimit>,
    #[serde(default)]
    pub(crate) reference: Option<ReferenceFigures>,
}

/// Path from clients to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

names!(pub ProxyPath, "subject": Direct = "direct", Relay = "relay", PassThrough = "pass-through",
    LowerCase = "lower-case");

/// Declared limit on a figure of one subject, relative to another in the same repetitions.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureLimit {
    /// `produce` or `consume`.
    pub(crate) side: String,
    /// Fixed rate that the limit applies to; absent: the maximum rate.
    pub(crate) rate_per_s: Option<u64>,
    pub(crate) figure: String,
    /// Subject that is limited.
    pub(crate) of: String,
    /// Subject for a ratio: the limit applies to the figure divided by this subject's.
    pub(crate) relative_to: Option<String>,
    /// Subject for a difference: the limit applies to the figure minus this subject's.
    pub(crate) difference_from: Option<String>,
    /// Maximum of the estimate.
    pub(crate) at_most: Option<f64>,
    /// Minimum of the lower end of the 95 % interval.
    pub(crate) lower_bound_at_least: Option<f64>,
}

/// Values that replace those of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Args)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OverheadOverrides {
    /// Repetitions of each cell
    #[arg(long, value_name = "COUNT")]
    pub repetitions: Option<u32>,
    /// Repetitions at most if a limit is undecided after the first [default: none]
    #[arg(long, value_name = "COUNT", help_heading = HEADING)]
    pub repetitions_max: Option<u32>,
    /// Records of each cell without a rate
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub records: Option<u64>,
    /// Fixed rates in records per second; 0: none
    #[arg(id = "rates", long, value_name = "RECORDS_PER_S", value_parser = parse_whole_rate,
          value_delimiter = ',')]
    pub rates_per_s: Option<Vec<u64>>,
    /// Length of a cell with a fixed rate
    #[arg(id = "hold", long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub rate_hold: Option<Duration>,
    /// Length of the load before each measured window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub warm_up: Option<Duration>,
    /// Run Apache Kafka's performance tools on the same cells as well
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub kafka_tools: Option<bool>,
    /// Records written before the first repetition
    #[arg(skip)]
    pub broker_warm_up_records: Option<u64>,
    /// Size of each value in bytes
    #[arg(long = "record-size", value_name = "BYTES", value_parser = parse_count,
          help_heading = HEADING)]
    pub record_bytes: Option<u64>,
    /// Producer properties of Apache Kafka: those of --kafka-property that do not concern the
    /// connection.
    #[arg(skip)]
    #[serde(skip)]
    pub producer: Vec<(String, String)>,
    /// Paths to the broker: direct, relay, pass-through, lower-case
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = HEADING)]
    pub subjects: Option<Vec<ProxyPath>>,
    /// Another proxy in front of the same broker, with any name; repeatable
    #[arg(long = "external-proxy", visible_alias = "proxy", value_name = "[NAME=]HOST:PORT",
          value_parser = named_address,
          help_heading = HEADING)]
    #[serde(skip)]
    pub external_proxies: Vec<(String, String)>,
}

/// Splits `NAME=HOST:PORT`; without a name the proxy is called `external`.
fn named_address(text: &str) -> Result<(String, String), NotKeyValue> {
    match text.contains('=') {
        true => key_value(text),
        false => Ok(("external".to_owned(), text.trim().to_owned())),
    }
}

/// Heading of the options that only this experiment has.
const HEADING: &str = "Options of proxy-overhead";

impl PlanText for OverheadPlan {
    type Overrides = OverheadOverrides;

    fn tables(&self) -> Vec<&OverheadOverrides> {
        vec![&self.quick]
    }

    fn replace(&mut self, new: OverheadOverrides) {
        self.external_proxies.extend(new.external_proxies);
        self.producer.extend(new.producer);
        if let Some(rates) = new.rates_per_s {
            self.rates_per_s = rates.into_iter().filter(|rate| *rate > 0).collect();
        }
        if new.repetitions.is_some() {
            self.repetitions_max = 0;
        }
        replace_fields!(self, new; subjects, repetitions, repetitions_max, records, record_bytes,
            rate_hold, warm_up, kafka_tools, broker_warm_up_records);
    }

    fn require(self, rules: &Rules<'_>) -> Result<Self, PlanError> {
        let hold_s = self.rate_hold.as_secs_f64();
        rules.not_empty("subjects", &self.subjects, "name at least one")?;
        rules.at_least_one("repetitions", self.repetitions)?;
        let (records, bytes) = ([self.records], [self.record_bytes]);
        let remedy = "use 1000 to 100000000";
        rules.within("records", &records, 1000..=100_000_000, remedy)?;
        rules.within("record_bytes", &bytes, 40..=1_000_000, "use 40 to 1000000")?;
        let remedy = "use rates above 0; the maximum rate is always measured";
        rules.within("rates_per_s", &self.rates_per_s, 1..=u64::MAX, remedy)?;
        let holds = self.rate_hold > self.warm_up && hold_s <= HOLD_S_MAX;
        let (hold, remedy) = (
            format!("{hold_s}s"),
            "use more than warm_up and at most one hour",
        );
        rules.hold(holds, "rate_hold", hold, remedy)?;
        Ok(self)
    }
}

impl Valid<OverheadPlan> {
    /// Returns the plan of an A/A test: one subject as two, the relay if it is possible.
    #[must_use]
    pub fn aa_test(self) -> Self {
        self.map(|plan| {
            plan.aa_test = true;
            let order = |it: &ProxyPath| match it {
                ProxyPath::Relay => 0,
                ProxyPath::PassThrough | ProxyPath::LowerCase => 1,
                ProxyPath::Direct => 2,
            };
            plan.subjects.sort_by_key(order);
            plan.external_proxies.clear();
            // Both apply to what the plan compares, not to an A/A test.
            plan.limits.clear();
            plan.reference = None;
        })
    }
}

impl OverheadPlan {
    /// Returns the approximate duration of a run, from starting its broker to the report.
    pub fn estimated_time(&self) -> Duration {
        let unthrottled = Duration::from_secs_f64(self.records as f64 / UNTHROTTLED_PER_S);
        let sides = if self.consume { 2 } else { 1 };
        let tools = if self.kafka_tools { 2 } else { 1 };
        let paced = self.rates_per_s.len() as u32 * (self.warm_up + self.rate_hold + CELL_SETUP);
        let one = paced + sides * tools * (unthrottled + CELL_SETUP);
        let paths = match self.aa_test {
            true => 2,
            false => (self.subjects.len() + self.external_proxies.len()) as u32,
        };
        BROKER_START + self.repetitions * paths * one
    }

    /// Returns the maximum rate (`None`), then each fixed rate; consumers have no fixed rates.
    pub(super) fn rates(&self, produces: bool) -> impl Iterator<Item = Option<u64>> {
        let fixed = self.rates_per_s.iter().filter(move |_| produces);
        std::iter::once(None).chain(fixed.copied().map(Some))
    }

    /// Returns the number of records of a cell with this rate.
    pub(super) fn records_at(&self, rate: Option<u64>) -> u64 {
        rate.map_or(self.records, |rate| {
            (rate as f64 * self.rate_hold.as_secs_f64()) as u64
        })
    }
}

const HOLD_S_MAX: f64 = 3600.0;
const BROKER_START: Duration = Duration::from_secs(10);
const CELL_SETUP: Duration = Duration::from_secs(3);
/// Records per second, of 1 KB each, through a proxy on a machine with 2 cores.
const UNTHROTTLED_PER_S: f64 = 80e3;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::plan::{AnyPlan, BUILT_IN};

    pub(in crate::overhead) fn built_in() -> Valid<OverheadPlan> {
        match AnyPlan::built_in("proxy-overhead") {
            Some(Ok(AnyPlan::Overhead(plan))) => plan,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn built_in_plan_has_its_reference_subjects() {
        let plan = built_in();
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
        let has_lower_bound = |it: &FigureLimit| it.lower_bound_at_least.is_some();
        assert!(plan.limits.iter().any(has_lower_bound));
        assert!(plan.repetitions_max > plan.repetitions);
        let quick = plan.quick("quick").unwrap();
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
    fn aa_test_prefers_the_relay() {
        let plan = built_in().aa_test();
        assert_eq!(plan.subjects[0], ProxyPath::Relay);
        assert_eq!(plan.subjects.last(), Some(&ProxyPath::Direct));
        assert!(plan.limits.is_empty() && plan.reference.is_none());
        assert!(plan.estimated_time() < built_in().estimated_time());
    }

    #[test]
    fn errors_name_file_key_and_value() {
        let plan = built_in();
        let none = OverheadOverrides {
            records: Some(5),
            ..OverheadOverrides::default()
        };
        let error = plan.with(none, "command line").unwrap_err().to_string();
        assert_eq!(error, "command line: records = 5: use 1000 to 100000000");
        let text = BUILT_IN.iter().find(|plan| plan.name == "proxy-overhead");
        let text = text
            .unwrap()
            .text
            .replacen("repetitions = 12", "repetition = 12", 1);
        let error = AnyPlan::parse(&text, "my.toml", &|_| None)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("my.toml:"), "{error}");
        assert!(error.contains("unknown field `repetition`"), "{error}");
    }
}
