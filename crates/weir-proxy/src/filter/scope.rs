//! Directions of records.

use serde::Deserialize;

/// The direction in which records travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    /// From a producer to the broker.
    Produce,
    /// From the broker to a consumer.
    Fetch,
}

impl Direction {
    /// Returns its name in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Fetch => "fetch",
        }
    }
}
