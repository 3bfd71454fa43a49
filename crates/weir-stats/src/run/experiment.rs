//! What follows from several figures: stages that add up, and answers no single cell gives.

use serde::{Deserialize, Serialize};

/// The mean of one part of the way of a record. Those of a cell add up to its mean response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageMean {
    /// `schedule`, `publish`, `broker_to_consumer`, `broker_to_gateway`, `gateway_to_client` or
    /// `broker_to_client`.
    pub name: String,
    /// Mean over the deliveries of the window.
    pub mean_us: f64,
    /// From where to where, and how it is known.
    pub how: String,
}

/// A figure that follows from the cells of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Derived {
    /// What it is, in words.
    pub name: String,
    /// Whose: an architecture, with its variant or parameters.
    pub of: String,
    /// The figure; `None` when no cell tells it.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// Whether it was reached, or reckoned.
    pub basis: DerivedFrom,
    /// From which cells, and by which rule.
    pub how: String,
}

/// Where a derived figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DerivedFrom {
    /// A cell of the run was there.
    Measured,
    /// Reckoned from cells below it.
    Computed,
}
