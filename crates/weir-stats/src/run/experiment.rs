//! Results computed from several metrics or cells.

use serde::{Deserialize, Serialize};

/// The mean latency of one stage of the data path. The sum over the stages of a cell is its mean
/// response time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageMean {
    /// `schedule`, `publish`, `broker_to_consumer`, `broker_to_gateway`, `gateway_to_client` or
    /// `broker_to_client`.
    pub name: String,
    /// Mean over the deliveries of the window.
    pub mean_us: f64,
    /// Start and end of the stage, and how its mean is determined.
    pub derivation: String,
}

/// A derived result, computed from the cells of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Derived {
    /// Description.
    pub name: String,
    /// Subject: an architecture, with its variant or parameters.
    pub of: String,
    /// Value; `None` if no cell provides it.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// Origin of the value.
    pub basis: DerivedFrom,
    /// Cells and rule from which it is computed.
    pub derivation: String,
}

/// The origin of a derived result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DerivedFrom {
    /// Measured directly in a cell.
    Measured,
    /// Computed from lower cells.
    Computed,
}
