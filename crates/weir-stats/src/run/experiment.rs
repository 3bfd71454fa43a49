//! Results that are computed from several metrics or cells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mean latency of one stage of the data path. The sum over the stages of a cell is its mean
/// response time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageMean {
    /// `schedule`, `publish`, `broker_to_consumer`, `broker_to_gateway`, `gateway_to_client` or
    /// `broker_to_client`.
    pub name: String,
    /// Mean over the deliveries of the measured window, in microseconds.
    pub mean_us: f64,
    /// Start and end of the stage, and method of determining its mean.
    pub derivation: String,
}

/// Result computed from several cells of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Derived {
    /// Description of the result.
    pub name: String,
    /// Subject: an architecture, with its variant or parameters.
    pub of: String,
    /// Value; `null` if no cell provides it.
    pub value: Option<f64>,
    /// Unit of the value.
    pub unit: String,
    /// Origin of the value.
    pub basis: DerivedFrom,
    /// Cells and rule from which the value is computed.
    pub derivation: String,
}

/// The origin of a derived result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DerivedFrom {
    /// Measured directly in a cell.
    Measured,
    /// Extrapolated from cells at lower load.
    Computed,
}
