//! A search for the maximum sustained load: its steps and its result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Search for the maximum sustained load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindMax {
    /// Load variable, including its unit: `rate_per_s` or `clients`.
    pub variable: String,
    /// Architecture under load, for example `gateway`.
    pub architecture: String,
    /// Steps in the order in which they ran, each with the id of its cell.
    pub steps: Vec<FindMaxStep>,
    /// Outcome of the search.
    pub outcome: FindMaxOutcome,
    /// Summary in one sentence.
    pub summary: String,
    /// Second search of an A/A test (`--aa-test`); `null` for other runs.
    #[serde(default)]
    pub again: Option<Box<Self>>,
}

/// One step of the search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindMaxStep {
    /// Load of the step, in the unit of `variable`.
    pub value: f64,
    /// Purpose of the step.
    pub phase: FindMaxPhase,
    /// Id of the cell.
    pub cell: String,
    /// `true` if the load was sustained; `null` if the benchmarking tool failed.
    pub sustained: Option<bool>,
    /// Reason if the load was not sustained.
    pub reason: Option<String>,
    /// Saturated role.
    pub saturated_role: Option<String>,
}

/// The purpose of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
