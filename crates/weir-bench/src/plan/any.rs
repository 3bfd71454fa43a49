//! Plans of all experiments: which one a plan file belongs to.

use super::{BUILT_IN, Plan, PlanError, PlanEstimate, Valid};
use crate::experiment::plan_file::{Siblings, from_toml};
use crate::libraries::LibrariesPlan;
use crate::overhead::OverheadPlan;
use crate::sweep::SweepPlan;

/// Plan of one of the experiments.
#[allow(clippy::large_enum_variant, reason = "created once per process")]
#[derive(Debug, Clone, PartialEq)]
pub enum AnyPlan {
    /// Plan over numbers of clients, or over a grid of clients and rates.
    Clients(Valid<Plan>),
    /// Sweep over record sizes and rates of a broker.
    Sweep(Valid<SweepPlan>),
    /// Comparison of proxies.
    Overhead(Valid<OverheadPlan>),
    /// Comparison of client libraries.
    Libraries(Valid<LibrariesPlan>),
}

impl AnyPlan {
    /// Parses a plan. `file` is its name in errors; `siblings` reads a file next to it.
    pub fn parse(text: &str, file: &str, siblings: Siblings<'_>) -> Result<Self, PlanError> {
        let keys: toml::Table = from_toml(text, file)?;
        // Each of these keys exists in one kind of plan only and is required there.
        let has = |key: &str| keys.contains_key(key);
        Ok(match () {
            () if has("subjects") => Self::Overhead(Valid::parse(text, file, siblings)?),
            () if has("libraries") => Self::Libraries(Valid::parse(text, file, siblings)?),
            () if has("sweep") => Self::Sweep(Valid::parse(text, file, siblings)?),
            () => Self::Clients(Valid::parse(text, file, siblings)?),
        })
    }

    /// Returns the built-in plan `name`; `None` if there is none.
    pub fn built_in(name: &str) -> Option<Result<Self, PlanError>> {
        let found = BUILT_IN.iter().find(|plan| plan.name == name)?;
        let text = found.text_with_bars();
        let parsed = text.and_then(|text| Self::parse(&text, found.file, &|_| None));
        Some(parsed.map(|plan| match plan {
            Self::Libraries(plan) => Self::Libraries(plan.map(|it| it.is_default_choice = true)),
            other => other,
        }))
    }

    /// Returns name and question.
    pub fn question(&self) -> (&str, &str) {
        match self {
            Self::Clients(plan) => (&plan.name, &plan.question),
            Self::Sweep(plan) => (&plan.name, &plan.question),
            Self::Overhead(plan) => (&plan.name, &plan.question),
            Self::Libraries(plan) => (&plan.name, &plan.question),
        }
    }

    /// Returns the hardware that the full plan is meant for, if it needs more than an ordinary
    /// machine.
    pub fn full_scale(&self) -> Option<&str> {
        match self {
            Self::Clients(plan) => plan.full_scale.as_deref(),
            Self::Sweep(plan) => plan.full_scale.as_deref(),
            Self::Overhead(_) | Self::Libraries(_) => None,
        }
    }

    /// Returns the plan with its quick values. `file` is its name in errors.
    pub fn quick(&self, file: &str) -> Result<Self, PlanError> {
        Ok(match self {
            Self::Clients(plan) => Self::Clients(plan.quick(file)?),
            Self::Sweep(plan) => Self::Sweep(plan.quick(file)?),
            Self::Overhead(plan) => Self::Overhead(plan.quick(file)?),
            Self::Libraries(plan) => Self::Libraries(plan.quick(file)?),
        })
    }

    /// Returns the resources that a run needs, where they can be estimated.
    pub fn estimate(&self) -> Option<PlanEstimate> {
        match self {
            Self::Clients(plan) => Some(PlanEstimate::of(plan)),
            Self::Sweep(plan) => Some(PlanEstimate::of_sweep(plan)),
            Self::Overhead(_) | Self::Libraries(_) => None,
        }
    }
}
