//! A search for the highest load that is held: every step, and the answer.

use serde::{Deserialize, Serialize};

/// The search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindMax {
    /// What was raised, with its unit: `rate_per_s` or `clients`.
    pub variable: String,
    /// Who was loaded, for example `gateway`.
    pub architecture: String,
    /// Each load that was tried, in order; step `n` is the cell number `cell` of the run.
    pub steps: Vec<FindMaxStep>,
    /// How it ended.
    pub outcome: FindMaxOutcome,
    /// The answer in a sentence.
    pub summary: String,
}

/// One load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FindMaxStep {
    /// The load.
    pub value: f64,
    /// What it was tried for.
    pub phase: FindMaxPhase,
    /// Its cell's id.
    pub cell: String,
    /// Whether it was held; `None` if the instrument failed.
    pub held: Option<bool>,
    /// Why not.
    #[serde(default)]
    pub why: Option<String>,
    /// The role that had nothing left.
    #[serde(default)]
    pub saturated_role: Option<String>,
}

/// What a load is tried for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindMaxPhase {
    /// Doubling (or halving) until it lies between a load that is held and one that is not.
    #[default]
    Bracket,
    /// Halving what lies between.
    Bisect,
    /// Once more, and longer, at the load that was found.
    Confirm,
    /// Once more just above, which must not be held.
    ConfirmAbove,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FindMaxOutcome {
    /// Held again when it was confirmed, while the load just above was not.
    Found {
        /// The highest load that is held.
        value: f64,
        /// The lowest load that is not.
        not_held: f64,
        /// What had nothing left there.
        saturated_role: Option<String>,
        /// The figure that shows it.
        saturated_why: Option<String>,
    },
    /// Held, but what lies above cannot be measured here.
    AtLeast {
        /// The highest load that is held.
        value: f64,
        /// Why there is no more.
        why: String,
    },
    /// No figure that could be stood by.
    Inconclusive {
        /// Why.
        why: String,
    },
}
