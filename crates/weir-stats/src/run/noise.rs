//! Result of an A/A test: by how much a subject differs from itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result of an A/A test, in which two subjects are identical.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseFloor {
    /// Name of the compared metric, including its unit.
    pub metric: String,
    /// Relative difference between the identical subjects, as a fraction: the largest of all load
    /// points, or that of 95 % of the cells of a comparison of libraries.
    pub share: f64,
    /// Number of repetitions of each subject.
    pub repetitions: u64,
    /// Start time of the A/A test in UTC, RFC 3339.
    pub started_utc: String,
    /// Name of the run directory of the A/A test; `null` if it is this run.
    #[serde(default)]
    pub run: Option<String>,
}
