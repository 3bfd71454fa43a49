//! Plans: TOML files that define loads, durations, repetitions and limits of a run. The published
//! plans are built into the program.

mod any;
pub(crate) mod bars;
mod built_in;
mod clients;
mod estimate;
mod overrides;
mod published;
mod subject;
mod threshold;
mod topics;
mod workload;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use weir_stats::run::ReferenceFigures;

use crate::experiment::plan_file::{duration, replace_fields};
pub use crate::experiment::{PlanError, PlanText, Rules, Siblings, UnknownName, Valid};
pub use any::AnyPlan;
pub use built_in::{BUILT_IN, BuiltIn};
pub(crate) use clients::ClientsPlan;
pub use estimate::PlanEstimate;
pub use overrides::PlanOverrides;
pub use subject::Architecture;
pub(crate) use subject::{PlanPoint, Subject, Variant};
pub(crate) use threshold::{Threshold, evaluate};
pub(crate) use topics::{ConsumersPlan, TopicsPlan};
pub use workload::Workload;
pub(crate) use workload::{SCHEMA_PLACEHOLDER, TimestampMode};

/// Plan over numbers of clients, or over a grid of clients and rates.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name, as in `weir bench run NAME` and in the directories of runs.
    pub(crate) name: String,
    /// Title of reports.
    pub(crate) title: String,
    /// Question that the plan answers.
    pub(crate) question: String,
    /// Hardware that the full levels are meant for, if they need more than an ordinary machine.
    pub(crate) full_scale: Option<String>,
    /// Architectures compared at each level, in this order.
    #[serde(default)]
    pub architectures: Vec<Architecture>,
    /// Gateway configurations that are compared with each other.
    #[serde(default)]
    pub(crate) variants: Vec<Variant>,
    /// Numbers of clients, ascending.
    #[serde(default)]
    pub levels: Vec<u64>,
    /// Rates of a grid in records per second, ascending; empty if all cells use the workload's
    /// rate.
    #[serde(default, rename = "rates_per_s")]
    pub(crate) grid_rates_per_s: Vec<f64>,
    /// Existing topic that all cells use instead of one new topic per cell.
    #[serde(skip)]
    pub(crate) topic: Option<String>,
    #[serde(default = "one")]
    pub(crate) repetitions: u32,
    /// New clients per second.
    #[serde(default = "thousand")]
    pub(crate) ramp_per_s: f64,
    /// Duration of the load on a newly started broker before the first cell. A Java program is much
    /// slower in its first seconds.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) broker_warm_up: Duration,
    /// Minimum time before the measured window.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) warm_up: Duration,
    /// Maximum time to wait for the steady state. Up to `warm_up`, the warm-up has a fixed length.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) warm_up_max: Duration,
    /// Length of the measured window, by due time.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) hold: Duration,
    /// Maximum wait for late deliveries after the measured window.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) drain: Duration,
    /// Load that the producers write.
    pub workload: Workload,
    #[serde(default)]
    pub(crate) topics: TopicsPlan,
    #[serde(default)]
    pub(crate) consumers: ConsumersPlan,
    #[serde(default)]
    pub(crate) clients: ClientsPlan,
    /// Gateway configuration, with placeholders.
    #[serde(skip)]
    pub(crate) gateway_config: String,
    #[serde(skip)]
    pub(crate) server_config: Option<String>,
    /// Limits within which the benchmarking tool's measurements are valid.
    #[serde(default)]
    pub(crate) validity: Validity,
    /// Rules that end a ladder.
    #[serde(default)]
    pub(crate) stop: StopRules,
    #[serde(default)]
    pub(crate) quick: PlanOverrides,
    /// Values that `weir demo` replaces.
    #[serde(default)]
    pub demo: PlanOverrides,
    #[serde(default)]
    pub(crate) thresholds: Vec<Threshold>,
    /// Figures published elsewhere, shown next to the results.
    #[serde(default, deserialize_with = "published::figures")]
    #[cfg_attr(test, schemars(with = "Option<published::Reference>"))]
    pub(crate) reference: Option<ReferenceFigures>,
}

/// Limits of the benchmarking tool. A cell beyond them is invalid.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Validity {
    /// Maximum p99 schedule lag in milliseconds. Default 20: a fifth of a delay that people notice.
    pub(crate) schedule_lag_p99_ms: f64,
    /// Maximum busy share of the event loop of the simulated clients. Default 0.9: above it,
    /// updates wait in the benchmarking tool.
    pub(crate) clients_busy_share: f64,
}

impl Default for Validity {
    fn default() -> Self {
        Self {
            schedule_lag_p99_ms: 20.0,
            clients_busy_share: 0.9,
        }
    }
}

/// Rules that end an architecture's ladder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StopRules {
    /// Mean response time in milliseconds above which the next level is skipped. Default 1000.
    pub(crate) response_mean_ms: f64,
    /// Share of lost deliveries above which the next level is skipped. Default 0.01.
    pub(crate) lost_share: f64,
    /// File descriptors that a process needs in addition to one per client. Default 512.
    pub(crate) descriptors_spare: u64,
}

impl Default for StopRules {
    fn default() -> Self {
        Self {
            response_mean_ms: 1000.0,
            lost_share: 0.01,
            descriptors_spare: 512,
        }
    }
}

impl PlanText for Plan {
    type Overrides = PlanOverrides;

    fn tables(&self) -> Vec<&PlanOverrides> {
        vec![&self.quick, &self.demo]
    }

    /// Reads the gateway configurations that the plan names: files next to the plan, otherwise
    /// built-in ones.
    fn resolve(&mut self, rules: &Rules<'_>, siblings: Siblings<'_>) -> Result<(), PlanError> {
        let config = |key, name: &String| config_file(key, name, rules, siblings);
        self.gateway_config = config("clients.adapters", &self.clients.adapters)?;
        let server = self.clients.lightstreamer_conf.as_ref();
        let server = server.map(|name| config("clients.lightstreamer_conf", name));
        self.server_config = server.transpose()?;
        for variant in &mut self.variants {
            let own = variant.adapters.as_ref();
            let own = own.map(|name| config("variants.adapters", name));
            variant.gateway_config = own.transpose()?;
        }
        Ok(())
    }

    fn replace(&mut self, new: PlanOverrides) {
        if let Some(rate_per_s) = new.rate_per_s {
            self.workload.rate_per_s = rate_per_s;
            self.grid_rates_per_s.clear();
        } else if let Some(rates) = new.rates_per_s {
            self.grid_rates_per_s = rates;
        }
        replace_fields!(self.clients, new; key);
        replace_fields!(self, new; architectures, levels, repetitions, topic, broker_warm_up,
            warm_up, warm_up_max, hold, drain);
    }

    fn require(mut self, rules: &Rules<'_>) -> Result<Self, PlanError> {
        let workload = &self.workload;
        rules.at_least_one("repetitions", self.repetitions)?;
        rules.above_0("ramp_per_s", self.ramp_per_s)?;
        workload.require(rules, self.hold)?;
        workload.require_placeholder(rules, &self.gateway_config)?;
        let mut names = BTreeSet::new();
        for Variant { name, .. } in &self.variants {
            let remedy = "give every variant a unique name";
            rules.hold(names.insert(name), "variants.name", name, remedy)?;
        }
        rules.not_empty("architectures", &self.architectures, "name at least one")?;
        rules.not_empty("levels", &self.levels, "list at least one number")?;
        let remedy = "use at least 1 client";
        rules.within("levels", &self.levels, 1..=u64::MAX, remedy)?;
        let (rates, marked) = (self.rates_per_s(), workload.marked_per_s);
        for rate in &rates {
            let key = match self.is_grid() {
                true => "rates_per_s",
                false => "workload.rate_per_s",
            };
            rules.above_0(key, *rate)?;
        }
        let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let (holds, remedy) = (
            (0.0..lowest).contains(&marked),
            "use less than the lowest rate, or 0 for none",
        );
        rules.hold(holds, "workload.marked_per_s", marked, remedy)?;
        self.require_shape(rules)?;
        self.levels.sort_unstable();
        self.grid_rates_per_s.sort_unstable_by(f64::total_cmp);
        Ok(self)
    }
}

/// Returns the text of a configuration.
fn config_file(
    key: &'static str,
    name: &str,
    rules: &Rules<'_>,
    siblings: Siblings<'_>,
) -> Result<String, PlanError> {
    let mut built_in = BUILT_IN.iter().flat_map(|plan| plan.configs);
    let found = siblings(name).or_else(|| {
        let (_, text) = built_in.find(|(found, _)| *found == name)?;
        Some((*text).to_owned())
    });
    let remedy = "no such file next to the plan and no built-in configuration of that name";
    found.ok_or_else(|| rules.violated(key, name, remedy))
}

fn one() -> u32 {
    1
}

fn thousand() -> f64 {
    1000.0
}

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
pub(crate) mod tests;
