//! Declared limits and their results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result of one declared limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdResult {
    /// Limit as declared, for example `gateway.cpu_us_per_delivered / floor.cpu_us_per_delivered <=
    /// 1.35`.
    pub expression: String,
    /// Cells to which the limit applies, for example `10000 clients`.
    pub scope: String,
    /// Measured value; `null` if it could not be measured.
    pub actual: Option<f64>,
    /// Value of the limit.
    pub limit: f64,
    /// Unit of both values; `x` for a ratio.
    pub unit: String,
    /// Result of the check.
    pub status: ThresholdStatus,
    /// Reason if the limit was not checked; otherwise `null`.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The result of checking a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdStatus {
    /// Measured and met.
    Passed,
    /// Measured and not met.
    Failed,
    /// Measured, but the interval contains the limit after the last repetition.
    Undecided,
    /// Not measured in this run: neither met nor missed.
    #[default]
    NotChecked,
}

impl ThresholdStatus {
    /// Returns the status of a measured value.
    pub fn of(is_met: bool) -> Self {
        match is_met {
            true => Self::Passed,
            false => Self::Failed,
        }
    }

    /// Returns the words for tables: `passed`, `failed`, `undecided`, `not checked`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Undecided => "undecided",
            Self::NotChecked => "not checked",
        }
    }
}

/// Number of limits by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThresholdCounts {
    /// Limits that were met.
    pub passed: usize,
    /// Limits that were not met.
    pub failed: usize,
    /// Limits that the measurements leave undecided.
    pub undecided: usize,
    /// Limits without a measurement.
    pub not_checked: usize,
}

impl ThresholdCounts {
    /// Counts results by status.
    pub fn of(results: &[ThresholdResult]) -> Self {
        let count = |status| results.iter().filter(|it| it.status == status).count();
        Self {
            passed: count(ThresholdStatus::Passed),
            failed: count(ThresholdStatus::Failed),
            undecided: count(ThresholdStatus::Undecided),
            not_checked: count(ThresholdStatus::NotChecked),
        }
    }

    /// Returns a sentence part, for example `2 of 3 thresholds passed, 1 not checked`; `None` if no
    /// limit is declared.
    pub fn text(self) -> Option<String> {
        let checked = self.passed + self.failed + self.undecided;
        let noun = |count| {
            if count == 1 {
                "threshold"
            } else {
                "thresholds"
            }
        };
        let others = [
            (self.undecided, "undecided"),
            (self.not_checked, "not checked"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        let others: String = others
            .map(|(count, what)| format!(", {count} {what}"))
            .collect();
        match (checked, self.not_checked) {
            (0, 0) => None,
            (0, more) => Some(format!("{more} {} not checked", noun(more))),
            (all, _) => Some(format!(
                "{} of {all} {} passed{others}",
                self.passed,
                noun(all)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_given_in_words() {
        let text = |passed, failed, not_checked| {
            let counts = ThresholdCounts {
                passed,
                failed,
                undecided: 0,
                not_checked,
            };
            counts.text().unwrap_or_default()
        };
        assert_eq!(text(0, 0, 0), "");
        assert_eq!(text(0, 0, 1), "1 threshold not checked");
        assert_eq!(text(1, 0, 0), "1 of 1 threshold passed");
        assert_eq!(text(2, 1, 2), "2 of 3 thresholds passed, 2 not checked");
        let undecided = ThresholdCounts {
            passed: 1,
            undecided: 1,
            ..ThresholdCounts::default()
        };
        let expected = "1 of 2 thresholds passed, 1 undecided";
        assert_eq!(undecided.text().as_deref(), Some(expected));
    }
}
