//! Plans: TOML files that define loads, durations, repetitions and limits of a run. The published
//! plans are built into the program.

mod architecture;
mod built_in;
mod check;
mod clients;
mod error;
mod estimate;
mod model;
mod published;
pub(crate) mod read;
mod subject;
mod sweep;
mod threshold;
mod workload;

use std::time::Duration;

use weir_stats::run::ReferenceFigures;

pub use architecture::Architecture;
pub use built_in::{BUILT_IN, BuiltIn};
pub use clients::ClientsPlan;
pub use error::PlanError;
pub use estimate::PlanEstimate;
use model::{PlanFile, Reference, VariantFile};
pub use model::{PlanOverrides, StopRules, Validity};
pub use subject::{PlanPoint, Subject, Variant};
pub use sweep::{SweepOverrides, SweepPlan};
pub use threshold::{Threshold, ThresholdMetric, evaluate};
pub use workload::{TimestampMode, Workload};

/// A checked plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name, as in `weir bench run NAME`.
    pub name: String,
    /// Title of the report.
    pub title: String,
    /// Question that the run answers.
    pub question: String,
    /// Hardware that the full levels are meant for, if they need more than an ordinary machine.
    pub full_scale: Option<String>,
    /// Architectures compared at each level, in this order; empty in a sweep.
    pub architectures: Vec<Architecture>,
    /// Gateway configurations that are compared with each other.
    pub variants: Vec<Variant>,
    /// Numbers of clients, ascending; empty in a sweep.
    pub levels: Vec<u64>,
    /// Rates of a grid in records per second, ascending; empty if all cells use the workload's
    /// rate.
    pub grid_rates_per_s: Vec<f64>,
    /// Parameters of a broker sweep, if the plan is one.
    pub sweep: Option<SweepPlan>,
    /// Existing topic that all cells use instead of one new topic per cell.
    pub topic: Option<String>,
    /// Number of times each cell runs.
    pub repetitions: u32,
    /// New clients per second.
    pub ramp_per_s: f64,
    /// Duration of the load on a newly started broker before the first cell. A Java program is much
    /// slower in its first seconds.
    pub broker_warm_up: Duration,
    /// Minimum time before the measured window.
    pub warm_up: Duration,
    /// Maximum time to wait for the steady state. Up to `warm_up`, the warm-up has a fixed length.
    pub warm_up_max: Duration,
    /// Length of the measured window, by due time.
    pub hold: Duration,
    /// Maximum wait for late deliveries after the measured window.
    pub drain: Duration,
    /// Load that the producers write.
    pub workload: Workload,
    /// Subscriptions of the simulated clients.
    pub clients: ClientsPlan,
    /// Gateway configuration, with placeholders.
    pub gateway_config: String,
    /// Content of `lightstreamer_conf.xml`.
    pub server_config: Option<String>,
    /// Limits within which the benchmarking tool's measurements are valid.
    pub validity: Validity,
    /// Rules that end a ladder.
    pub stop: StopRules,
    /// Values that `--quick` replaces.
    pub quick: PlanOverrides,
    /// Values that `weir demo` replaces.
    pub demo: PlanOverrides,
    /// Declared limits on the results.
    pub thresholds: Vec<Threshold>,
    /// Figures published elsewhere, shown next to the results.
    pub reference: Option<ReferenceFigures>,
}

impl Plan {
    /// Parses a plan. `file` is its name in errors. The gateway configuration that the plan names
    /// is read with `read_sibling`; if that returns `None`, it must be a built-in one.
    ///
    /// # Errors
    /// [`PlanError`] if the text is not a valid plan or names a configuration that does not exist.
    pub fn parse(
        text: &str,
        file: &str,
        read_sibling: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, PlanError> {
        let raw: PlanFile = read::from_toml(text, file)?;
        let server = raw.clients.lightstreamer_conf.as_deref();
        let mut plan = Self {
            name: raw.name,
            title: raw.title,
            question: raw.question,
            full_scale: raw.full_scale,
            architectures: raw.architectures,
            variants: variants(raw.variants, file, &read_sibling)?,
            levels: raw.levels,
            grid_rates_per_s: raw.rates_per_s,
            sweep: raw.sweep,
            topic: None,
            repetitions: raw.repetitions,
            ramp_per_s: raw.ramp_per_s,
            broker_warm_up: raw.broker_warm_up,
            warm_up: raw.warm_up,
            warm_up_max: raw.warm_up_max,
            hold: raw.hold,
            drain: raw.drain,
            workload: raw.workload,
            gateway_config: config_file(
                "clients.adapters",
                &raw.clients.adapters,
                file,
                &read_sibling,
            )?,
            server_config: server
                .map(|name| config_file("clients.lightstreamer_conf", name, file, &read_sibling))
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

    /// Returns the built-in plan `name`; `None` if there is none.
    pub fn built_in(name: &str) -> Option<Result<Self, PlanError>> {
        let found = BUILT_IN.iter().find(|plan| plan.name == name)?;
        Some(Self::parse(found.text, found.file, |_| None))
    }

    /// Returns the plan with some values replaced. `file` is the name in errors.
    ///
    /// # Errors
    /// [`PlanError::Value`] if a new value is invalid.
    pub fn with(mut self, overrides: &PlanOverrides, file: &str) -> Result<Self, PlanError> {
        let new = overrides.clone();
        self.architectures = new.architectures.unwrap_or(self.architectures);
        self.levels = new.levels.unwrap_or(self.levels);
        self.repetitions = new.repetitions.unwrap_or(self.repetitions);
        self.grid_rates_per_s = new.rates_per_s.unwrap_or(self.grid_rates_per_s);
        if let Some(rate_per_s) = new.rate_per_s {
            self.workload.rate_per_s = rate_per_s;
            self.grid_rates_per_s.clear();
        }
        self.sweep = self.sweep.map(|own| own.with(new.sweep));
        self.topic = new.topic.or(self.topic);
        self.clients.key = new.key.or(self.clients.key);
        self.broker_warm_up = new.broker_warm_up.unwrap_or(self.broker_warm_up);
        self.warm_up = new.warm_up.unwrap_or(self.warm_up);
        self.warm_up_max = new.warm_up_max.unwrap_or(self.warm_up_max);
        self.hold = new.hold.unwrap_or(self.hold);
        self.drain = new.drain.unwrap_or(self.drain);
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

/// Returns the text of a configuration: the file next to the plan, otherwise a built-in one.
fn config_file(
    key: &'static str,
    name: &str,
    file: &str,
    read_sibling: impl Fn(&str) -> Option<String>,
) -> Result<String, PlanError> {
    let mut built_in = BUILT_IN.iter().flat_map(|plan| {
        plan.server
            .into_iter()
            .chain([(plan.adapters_file, plan.adapters)])
    });
    let found = read_sibling(name).or_else(|| {
        let (_, text) = built_in.find(|(found, _)| *found == name)?;
        Some(text.to_owned())
    });
    found.ok_or_else(|| PlanError::Value {
        file: file.to_owned(),
        key,
        value: name.to_owned(),
        remedy: "no such file next to the plan and no built-in configuration of that name",
    })
}

fn variants(
    raw: Vec<VariantFile>,
    file: &str,
    read_sibling: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<Variant>, PlanError> {
    let variant = |raw: VariantFile| {
        let config = raw.adapters.as_deref();
        let config = config.map(|name| config_file("variants.adapters", name, file, read_sibling));
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
