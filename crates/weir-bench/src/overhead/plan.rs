//! The plan of a run that compares proxies: what goes through each, how often, and what must hold.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use weir_stats::run::ReferenceFigures;

use crate::plan::PlanError;
use crate::plan::read::{duration, from_toml, settle, some_duration};

/// A checked plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverheadPlan {
    /// Name, as in `weir bench run NAME`.
    pub name: String,
    /// Heading of the report.
    pub title: String,
    /// What the run is meant to answer.
    pub question: String,
    /// Ways from clients to the broker, the one that others are held against first.
    pub subjects: Vec<ProxyPath>,
    /// Proxies of others, by name and address.
    #[serde(default)]
    pub foreign: BTreeMap<String, String>,
    /// Times that everything runs; subjects take turns.
    pub rounds: u32,
    /// Records of each run without a rate.
    pub messages: u64,
    /// Bytes of each value.
    pub record_bytes: u64,
    /// Fixed rates, besides as fast as it goes.
    #[serde(default)]
    pub rates_per_s: Vec<u64>,
    /// Length of a run with a fixed rate.
    #[serde(deserialize_with = "duration")]
    pub rate_hold: Duration,
    /// Left out of the figures at the front of each run.
    #[serde(deserialize_with = "duration")]
    pub warm_up: Duration,
    /// Records written before the first round, so that the broker has compiled what it does.
    #[serde(default)]
    pub preheat_messages: u64,
    /// Read what was written through each subject as well.
    pub consume: bool,
    /// Run Apache Kafka's own tools beside our clients.
    #[serde(default)]
    pub kafka_tools: bool,
    /// Producer properties, by Kafka's names.
    #[serde(default)]
    pub producer: BTreeMap<String, String>,
    /// What `--quick` changes.
    #[serde(default)]
    pub quick: OverheadOverrides,
    /// What must hold.
    #[serde(default)]
    pub limits: Vec<FigureLimit>,
    /// Figures published elsewhere.
    #[serde(default)]
    pub reference: Option<ReferenceFigures>,
}

/// A way from clients to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyPath {
    /// None between them.
    Direct,
    /// Bytes copied between two sockets: the floor.
    Relay,
    /// Our proxy without filters.
    PassThrough,
    /// Our proxy with every value in lower case.
    LowerCase,
}

impl ProxyPath {
    /// Its name in plans and results.
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

/// A limit on one figure of one subject, beside the same figure of another in the same rounds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureLimit {
    /// `produce` or `consume`.
    pub side: String,
    /// The fixed rate it is about; left out: as fast as it goes.
    pub rate_per_s: Option<u64>,
    /// Name of the figure.
    pub figure: String,
    /// Whose.
    pub of: String,
    /// The figure over that of this subject.
    pub over: Option<String>,
    /// The figure less that of this subject.
    pub minus: Option<String>,
    /// The estimate is not above.
    pub at_most: Option<f64>,
    /// The lower end of the 95 % interval is not below.
    pub low_at_least: Option<f64>,
}

/// Values that take the place of a plan's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadOverrides {
    /// Ways from clients to the broker.
    pub subjects: Option<Vec<ProxyPath>>,
    /// Times that everything runs.
    pub rounds: Option<u32>,
    /// Records of each run without a rate.
    pub messages: Option<u64>,
    /// Bytes of each value.
    pub record_bytes: Option<u64>,
    /// Fixed rates.
    pub rates_per_s: Option<Vec<u64>>,
    /// Length of a run with a fixed rate.
    #[serde(deserialize_with = "some_duration")]
    pub rate_hold: Option<Duration>,
    /// Left out of the figures at the front of each run.
    #[serde(deserialize_with = "some_duration")]
    pub warm_up: Option<Duration>,
    /// Run Apache Kafka's own tools as well.
    pub kafka_tools: Option<bool>,
    /// Records written before the first round.
    pub preheat_messages: Option<u64>,
}

impl OverheadPlan {
    /// Returns about how long a run takes, from its broker to the report.
    pub fn estimated_time(&self) -> Duration {
        let unthrottled = Duration::from_secs_f64(self.messages as f64 / UNTHROTTLED_PER_S);
        let sides = if self.consume { 2 } else { 1 };
        let tools = if self.kafka_tools { 2 } else { 1 };
        let paced = self.rates_per_s.len() as u32 * (self.warm_up + self.rate_hold + CELL_SETUP);
        let one = paced + sides * tools * (unthrottled + CELL_SETUP);
        let ways = (self.subjects.len() + self.foreign.len()) as u32;
        BROKER_START + self.rounds * ways * one
    }

    /// Reads a plan; `file` is the name that errors carry.
    ///
    /// # Errors
    /// [`PlanError`] if it is not a plan.
    pub fn parse(text: &str, file: &str) -> Result<Self, PlanError> {
        let plan: Self = from_toml(text, file)?;
        plan.clone().with(&plan.quick, file)?;
        plan.with(&OverheadOverrides::default(), file)
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
    pub fn with(mut self, overrides: &OverheadOverrides, file: &str) -> Result<Self, PlanError> {
        let new = overrides.clone();
        self.subjects = new.subjects.unwrap_or(self.subjects);
        self.rounds = new.rounds.unwrap_or(self.rounds);
        self.messages = new.messages.unwrap_or(self.messages);
        self.record_bytes = new.record_bytes.unwrap_or(self.record_bytes);
        self.rates_per_s = new.rates_per_s.unwrap_or(self.rates_per_s);
        self.rate_hold = new.rate_hold.unwrap_or(self.rate_hold);
        self.warm_up = new.warm_up.unwrap_or(self.warm_up);
        self.kafka_tools = new.kafka_tools.unwrap_or(self.kafka_tools);
        self.preheat_messages = new.preheat_messages.unwrap_or(self.preheat_messages);
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
                self.rounds == 0,
                "rounds",
                "0".to_owned(),
                "give at least 1",
            ),
            (
                !(1000..=MESSAGES_MAX).contains(&self.messages),
                "messages",
                self.messages.to_string(),
                "give 1000 to 100000000",
            ),
            (
                !(40..=RECORD_BYTES_MAX).contains(&self.record_bytes),
                "record_bytes",
                self.record_bytes.to_string(),
                "give 40 to 1000000",
            ),
            (
                self.rates_per_s.contains(&0),
                "rates_per_s",
                "0".to_owned(),
                "give rates above 0; as fast as it goes is measured anyway",
            ),
            (
                self.rate_hold <= self.warm_up || hold_s > HOLD_S_MAX,
                "rate_hold",
                format!("{hold_s}s"),
                "give more than warm_up, and an hour at most",
            ),
        ];
        let broken = rules.into_iter().find(|(broken, ..)| *broken);
        settle(
            broken.map(|(_, key, value, remedy)| (key, value, remedy)),
            file,
        )
    }

    /// As fast as it goes, and then each fixed rate.
    pub(super) fn rates(&self) -> impl Iterator<Item = Option<u64>> {
        std::iter::once(None).chain(self.rates_per_s.iter().copied().map(Some))
    }

    /// Records that go through a subject at some rate.
    pub(super) fn records(&self, rate: Option<u64>) -> u64 {
        rate.map_or(self.messages, |rate| {
            (rate as f64 * self.rate_hold.as_secs_f64()) as u64
        })
    }
}

/// File of the plan that is part of the program.
pub const BUILT_IN_FILE: &str = "proxy-overhead.toml";
/// Its text.
pub const BUILT_IN_TEXT: &str = include_str!("../../../../plans/proxy-overhead.toml");
const MESSAGES_MAX: u64 = 100_000_000;
const RECORD_BYTES_MAX: u64 = 1_000_000;
const HOLD_S_MAX: f64 = 3600.0;

const BROKER_START: Duration = Duration::from_secs(10);
const CELL_SETUP: Duration = Duration::from_secs(3);
/// Records of 1 KB through a proxy on a machine of 2 cores.
const UNTHROTTLED_PER_S: f64 = 80e3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_plan_parses_and_has_what_it_is_held_against() {
        let plan = OverheadPlan::built_in().unwrap();
        assert_eq!(plan.name, "proxy-overhead");
        assert_eq!(plan.subjects[0], ProxyPath::Direct);
        assert!(plan.rounds >= 5 && plan.record_bytes == 1024);
        let published = plan.reference.clone().unwrap().rows;
        assert_eq!(published.len(), 3);
        assert!(
            published
                .iter()
                .all(|row| row.throughput_bit_per_s.is_some())
        );
        for limit in &plan.limits {
            let other = limit.over.as_ref().or(limit.minus.as_ref()).unwrap();
            for name in [&limit.of, other] {
                assert!(name.parse::<ProxyPath>().is_ok(), "{name}");
            }
            assert!(limit.at_most.is_some() != limit.low_at_least.is_some());
        }
        let quick = plan.clone().with(&plan.quick, "quick").unwrap();
        assert!(quick.rounds >= 3 && quick.rounds < plan.rounds);
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
        assert_eq!(plan.records(Some(20_000)), 160_000);
    }

    #[test]
    fn errors_name_file_key_and_value() {
        let plan = OverheadPlan::built_in().unwrap();
        let none = OverheadOverrides {
            messages: Some(5),
            ..OverheadOverrides::default()
        };
        let error = plan.with(&none, "command line").unwrap_err().to_string();
        assert_eq!(error, "command line: messages = 5: give 1000 to 100000000");
        let text = BUILT_IN_TEXT.replacen("rounds = 12", "round = 12", 1);
        let error = OverheadPlan::parse(&text, "my.toml")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("my.toml:"), "{error}");
        assert!(error.contains("unknown field `round`"), "{error}");
    }
}
