//! Plans: what to run, at which levels, how long, and when a result counts. TOML files, the
//! published ones built into the program.

mod built_in;
mod check;
mod clients;
mod estimate;
mod model;
mod published;
pub(crate) mod read;
mod subject;
mod sweep;
mod threshold;
mod workload;

use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use weir_stats::run::ReferenceFigures;

pub use built_in::{BUILT_IN, BuiltIn};
pub use clients::ClientsPlan;
pub use estimate::PlanEstimate;
use model::{PlanFile, Reference, VariantFile};
pub use model::{PlanOverrides, StopRules, Validity};
pub use subject::{PlanPoint, Subject, Variant};
pub use sweep::{SweepOverrides, SweepPlan};
pub use threshold::{Threshold, ThresholdMetric, evaluate};
pub use workload::{TimestampMode, Workload};

/// How records reach the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// Each client is the one member of a consumer group of its own.
    Groups,
    /// Each client is a plain consumer with assigned partitions and no group.
    Standalone,
    /// TLCP clients of the gateway.
    Gateway,
    /// Plain sockets of the floor server.
    Floor,
}

impl Architecture {
    /// All of them, in the order they are listed.
    pub const ALL: [Self; 4] = [Self::Groups, Self::Standalone, Self::Gateway, Self::Floor];

    /// The name used in plans, on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::Standalone => "standalone",
            Self::Gateway => "gateway",
            Self::Floor => "floor",
        }
    }
}

impl std::str::FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|architecture| architecture.name() == text);
        found.ok_or_else(|| {
            format!(
                "unknown architecture \"{text}\", expected groups, standalone, gateway or floor"
            )
        })
    }
}

/// A checked plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name, as in `weir bench run NAME`.
    pub name: String,
    /// Heading of the report.
    pub title: String,
    /// What the run is meant to answer.
    pub question: String,
    /// What the full levels are meant for, if not for any machine.
    pub full_scale: Option<String>,
    /// Compared at each level, in this order; empty in a sweep.
    pub architectures: Vec<Architecture>,
    /// Ways to set up the gateway, compared with each other.
    pub variants: Vec<Variant>,
    /// Numbers of clients, ascending; empty in a sweep.
    pub levels: Vec<u64>,
    /// Records due per second of a grid, ascending; empty: all cells have the workload's.
    pub grid_rates_per_s: Vec<f64>,
    /// Makes the plan a sweep of a broker.
    pub sweep: Option<SweepPlan>,
    /// An existing topic that all cells use, in place of a new one each.
    pub topic: Option<String>,
    /// Times each cell runs.
    pub repetitions: u32,
    /// New clients per second.
    pub ramp_per_s: f64,
    /// Load on a broker that has just been started, before the first cell: a Java program is far
    /// slower in its first seconds.
    pub preheat: Duration,
    /// Time before the measured window, at least.
    pub warm_up: Duration,
    /// How long to wait for the load to settle, if it has not by then; not longer than `warm_up`: the warm-up is fixed.
    pub warm_up_max: Duration,
    /// Length of the measured window, by due time.
    pub hold: Duration,
    /// Longest wait for late deliveries after it.
    pub drain: Duration,
    /// What the producers write.
    pub workload: Workload,
    /// What the clients of a server ask for.
    pub clients: ClientsPlan,
    /// The gateway's configuration, with its place holders.
    pub gateway_config: String,
    /// Its `lightstreamer_conf.xml`.
    pub server_config: Option<String>,
    /// Limits of the instrument.
    pub validity: Validity,
    /// When a ladder ends.
    pub stop: StopRules,
    /// What `--quick` changes.
    pub quick: PlanOverrides,
    /// What `weir demo` changes.
    pub demo: PlanOverrides,
    /// Declared limits on the results.
    pub thresholds: Vec<Threshold>,
    /// Figures published elsewhere, to stand beside the results.
    pub reference: Option<ReferenceFigures>,
}

/// Why a text is not a plan. Every message names the file and the key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Not TOML, an unknown key, a missing key, or a value of the wrong type.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A value that makes no sense.
    #[error("{file}: {key} = {value}: {remedy}")]
    Value {
        /// The file, or `command line`.
        file: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What would do.
        remedy: &'static str,
    },
}

impl Plan {
    /// Reads a plan; `file` is the name that errors carry. The gateway's configuration that it names
    /// comes from `beside`, else it has to be a built-in one.
    ///
    /// # Errors
    /// [`PlanError`] if it is not a plan, or names a configuration that is not there.
    pub fn parse(
        text: &str,
        file: &str,
        beside: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, PlanError> {
        let raw: PlanFile = read::from_toml(text, file)?;
        let server = raw.clients.lightstreamer_conf.as_deref();
        let mut plan = Self {
            name: raw.name,
            title: raw.title,
            question: raw.question,
            full_scale: raw.full_scale,
            architectures: raw.architectures,
            variants: variants(raw.variants, file, &beside)?,
            levels: raw.levels,
            grid_rates_per_s: raw.rates_per_s,
            sweep: raw.sweep,
            topic: None,
            repetitions: raw.repetitions,
            ramp_per_s: raw.ramp_per_s,
            preheat: raw.preheat,
            warm_up: raw.warm_up,
            warm_up_max: raw.warm_up_max,
            hold: raw.hold,
            drain: raw.drain,
            workload: raw.workload,
            gateway_config: config_file("clients.adapters", &raw.clients.adapters, file, &beside)?,
            server_config: server
                .map(|name| config_file("clients.lightstreamer_conf", name, file, &beside))
                .transpose()?,
            clients: raw.clients,
            validity: raw.validity,
            stop: raw.stop,
            quick: raw.quick,
            demo: raw.demo,
            thresholds: raw.thresholds,
            reference: raw.reference.map(Reference::figures),
        };
        plan.check(file)?;
        for overrides in [plan.quick.clone(), plan.demo.clone()] {
            plan.clone().with(&overrides, file)?;
        }
        plan.sort();
        Ok(plan)
    }

    /// The built-in plan of this name.
    pub fn built_in(name: &str) -> Option<Result<Self, PlanError>> {
        let found = BUILT_IN.iter().find(|plan| plan.name == name)?;
        Some(Self::parse(found.text, found.file, |_| None))
    }

    /// The plan with some values replaced; `file` is the name that errors carry.
    ///
    /// # Errors
    /// [`PlanError::Value`] if a new value makes no sense.
    pub fn with(mut self, overrides: &PlanOverrides, file: &str) -> Result<Self, PlanError> {
        let PlanOverrides {
            architectures,
            levels,
            repetitions,
            rates_per_s,
            rate_per_s,
            sweep,
            topic,
            key,
            preheat,
            warm_up,
            warm_up_max,
            hold,
            drain,
        } = overrides.clone();
        self.architectures = architectures.unwrap_or(self.architectures);
        self.levels = levels.unwrap_or(self.levels);
        self.repetitions = repetitions.unwrap_or(self.repetitions);
        self.grid_rates_per_s = rates_per_s.unwrap_or(self.grid_rates_per_s);
        if let Some(rate_per_s) = rate_per_s {
            self.workload.rate_per_s = rate_per_s;
            self.grid_rates_per_s.clear();
        }
        self.sweep = self.sweep.map(|own| own.with(sweep));
        self.topic = topic.or(self.topic);
        self.clients.key = key.or(self.clients.key);
        self.preheat = preheat.unwrap_or(self.preheat);
        self.warm_up = warm_up.unwrap_or(self.warm_up);
        self.warm_up_max = warm_up_max.unwrap_or(self.warm_up_max);
        self.hold = hold.unwrap_or(self.hold);
        self.drain = drain.unwrap_or(self.drain);
        self.check(file)?;
        self.sort();
        Ok(self)
    }

    fn sort(&mut self) {
        self.levels.sort_unstable();
        self.grid_rates_per_s.sort_unstable_by(f64::total_cmp);
        self.sweep = self
            .sweep
            .take()
            .map(|own| own.with(SweepOverrides::default()));
    }
}

/// The text of a configuration: the plan's own file, else a built-in one.
fn config_file(
    key: &'static str,
    name: &str,
    file: &str,
    beside: impl Fn(&str) -> Option<String>,
) -> Result<String, PlanError> {
    let mut built_in = BUILT_IN.iter().flat_map(|plan| {
        plan.server
            .into_iter()
            .chain([(plan.adapters_file, plan.adapters)])
    });
    let found = beside(name).or_else(|| {
        let (_, text) = built_in.find(|(found, _)| *found == name)?;
        Some(text.to_owned())
    });
    found.ok_or_else(|| PlanError::Value {
        file: file.to_owned(),
        key,
        value: name.to_owned(),
        remedy: "no such file beside the plan, and no built-in configuration of that name",
    })
}

fn variants(
    raw: Vec<VariantFile>,
    file: &str,
    beside: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<Variant>, PlanError> {
    let variant = |raw: VariantFile| {
        let config = raw.adapters.as_deref();
        let config = config.map(|name| config_file("variants.adapters", name, file, beside));
        Ok(Variant {
            name: raw.name,
            threads: raw.threads,
            gateway_config: config.transpose()?,
        })
    };
    raw.into_iter().map(variant).collect()
}

#[cfg(test)]
mod tests;
