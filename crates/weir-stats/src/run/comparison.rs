//! The two sides of a comparison, metric by metric.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Cell;
use crate::interval;

/// Comparison of two runs, or of two variants of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Baseline side.
    pub base: ComparisonSide,
    /// Side compared with the baseline.
    pub other: ComparisonSide,
    /// `true` if repetitions of both sides alternated in one run, so that drift affects both.
    pub interleaved: bool,
    /// Margin: largest relative difference that does not matter, as a fraction.
    pub margin_share: f64,
    /// Subjects that both sides measured.
    pub subjects: Vec<SubjectComparison>,
    /// Subjects that only one side measured, and problems of the comparison.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Summary in one sentence.
    pub summary: String,
}

/// One side of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonSide {
    /// Name in tables: a directory or a variant.
    pub label: String,
    /// Name of the plan.
    pub plan: String,
    /// Start time of the run in UTC, RFC 3339.
    pub started_utc: String,
    /// Version of Weir that ran the plan.
    pub weir_version: String,
}

/// Subject that both sides measured. All its repetitions share it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonSubject {
    /// As in `Cell`.
    pub architecture: String,
    /// As in `Cell`; `null` if the variants are the sides.
    pub variant: Option<String>,
    /// As in `Cell`.
    pub clients: u64,
    /// As in `Cell`.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
}

impl ComparisonSubject {
    /// Returns the subject of which the cell is a repetition.
    pub fn of(cell: &Cell) -> Self {
        Self {
            architecture: cell.architecture.clone(),
            variant: cell.variant.clone(),
            clients: cell.clients,
            parameters: cell.parameters.clone(),
        }
    }
}

impl std::fmt::Display for ComparisonSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.architecture)?;
        if let Some(variant) = &self.variant {
            write!(f, " {variant}")?;
        }
        match self.clients {
            // Comparisons of client libraries have no clients.
            0 => {}
            1 => write!(f, ", 1 client")?,
            more => write!(f, ", {more} clients")?,
        }
        for (name, value) in &self.parameters {
            write!(f, ", {name} {value}")?;
        }
        Ok(())
    }
}

/// Comparison of one subject, metric by metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectComparison {
    /// Compared subject.
    pub subject: ComparisonSubject,
    /// Compared metrics.
    pub metrics: Vec<MetricComparison>,
}

/// Comparison of one metric: one value per repetition and side, and the verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricComparison {
    /// Name of the metric, including its unit.
    pub metric: String,
    /// `true` if lower values are better.
    pub lower_is_better: bool,
    /// `true` if the metric decides the overall result.
    pub is_headline: bool,
    /// Values of the base, one per repetition.
    pub base_values: Vec<f64>,
    /// Values of the other side, one per repetition.
    pub other_values: Vec<f64>,
    /// Mean of the other side's repetitions divided by that of the base
    /// (`interval::repetition_mean`).
    pub ratio: Option<f64>,
    /// Lower bound of the ratio's 95 % confidence interval.
    pub ratio_low: Option<f64>,
    /// Upper bound of the ratio's 95 % confidence interval.
    pub ratio_high: Option<f64>,
    /// p-value of the exact permutation test on the same values.
    pub permutation_p: Option<f64>,
    /// Relative difference between two repetitions of the same side that 95 % of cases do not
    /// exceed, as a fraction.
    pub noise_share: Option<f64>,
    /// Relative difference between two runs of the same subject, as a fraction; `null` without such
    /// runs.
    pub aa_share: Option<f64>,
    /// Verdict on the metric.
    pub verdict: Verdict,
    /// Reason for the verdict, in one clause.
    pub reason: String,
    /// Estimated repetitions per side for a decision, if the verdict is inconclusive.
    pub repetitions_needed: Option<u64>,
    /// `true` if the metric is worse even after correction for all examined metrics (Holm).
    #[serde(default)]
    pub is_significantly_worse: bool,
}

impl Comparison {
    /// Returns `true` if a deciding metric has enough repetitions on both sides for the verdict
    /// "worse".
    pub fn has_decided(&self) -> bool {
        let metrics = self.subjects.iter().flat_map(|subject| &subject.metrics);
        metrics.into_iter().any(|metric| {
            let fewest = metric.base_values.len().min(metric.other_values.len());
            metric.is_headline && fewest >= 2
        })
    }
}

impl MetricComparison {
    /// Returns the value that represents the repetitions of the base.
    pub fn base_mean(&self) -> Option<f64> {
        interval::repetition_mean(&self.base_values)
    }

    /// Returns the value that represents the repetitions of the other side.
    pub fn other_mean(&self) -> Option<f64> {
        interval::repetition_mean(&self.other_values)
    }
}

/// The verdict on one metric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// An interval entirely beyond the margin, on the better side.
    Better,
    /// An interval entirely beyond the margin, on the worse side.
    Worse,
    /// An interval entirely inside the margin.
    Equivalent,
    /// None of the others.
    #[default]
    Inconclusive,
}

impl Verdict {
    /// Returns the word for tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
        }
    }
}
