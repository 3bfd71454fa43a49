//! Directions of records, and the default scope of a filter.

use serde::Deserialize;

/// The direction in which records travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From a producer to the broker.
    Produce,
    /// From the broker to a consumer.
    Fetch,
}

impl Direction {
    /// Returns its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Fetch => "fetch",
        }
    }
}

/// Returns the default of `topics`.
pub(super) fn all_topics() -> Vec<String> {
    vec!["*".to_owned()]
}

/// Returns the default of `on`.
pub(super) fn on_produce() -> Vec<Direction> {
    vec![Direction::Produce]
}
