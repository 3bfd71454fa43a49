//! A search for the maximum sustained load: its steps and its result.

use serde::{Deserialize, Serialize};

/// A search for the maximum sustained load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindMax {
    /// Variable load with its unit: `rate_per_s` or `clients`.
    pub variable: String,
    /// Architecture under load, for example `gateway`.
    pub architecture: String,
    /// Tried loads in order. Each step has the id of its cell in the run.
    pub steps: Vec<FindMaxStep>,
    /// Outcome.
    pub outcome: FindMaxOutcome,
    /// Summary in one sentence.
    pub summary: String,
}

/// One step of the search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FindMaxStep {
    /// Load.
    pub value: f64,
    /// Purpose of the step.
    pub phase: FindMaxPhase,
    /// Id of the cell.
    pub cell: String,
    /// The load was sustained; `None` if the benchmarking tool failed.
    pub sustained: Option<bool>,
    /// Reason if it was not.
    #[serde(default)]
    pub reason: Option<String>,
    /// Saturated role.
    #[serde(default)]
    pub saturated_role: Option<String>,
}

/// The purpose of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindMaxPhase {
    /// Doubling or halving of the load until a sustained and an unsustained one are known.
    #[default]
    Bracket,
    /// Bisection of this range.
    Bisect,
    /// A longer repetition of the load found.
    Confirm,
    /// A repetition of a load just above, which must not be sustained.
    ConfirmAbove,
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FindMaxOutcome {
    /// A confirmed maximum: sustained again, while the load just above was not.
    Found {
        /// Highest sustained load.
        value: f64,
        /// Lowest load that was not sustained.
        first_not_sustained: f64,
        /// Saturated role at that load.
        saturated_role: Option<String>,
        /// Evidence of saturation, with its value.
        saturation_reason: Option<String>,
    },
    /// A sustained load above which nothing can be measured here.
    AtLeast {
        /// Highest sustained load.
        value: f64,
        /// Reason.
        reason: String,
    },
    /// No reliable result.
    Inconclusive {
        /// Reason.
        reason: String,
    },
}
