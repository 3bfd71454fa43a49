//! The two sides of a comparison, metric by metric.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Cell;
use crate::interval;

/// A comparison of two runs, or of two variants of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Side to compare with.
    pub base: ComparisonSide,
    /// Side that is compared.
    pub other: ComparisonSide,
    /// Repetitions of both sides alternated in one run, so that drift affects both.
    pub interleaved: bool,
    /// Margin: a difference up to this share does not matter.
    pub margin_share: f64,
    /// Subjects that both sides measured.
    pub subjects: Vec<SubjectComparison>,
    /// Subjects of only one side, and problems of the comparison.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Summary in one sentence.
    pub summary: String,
}

/// One side of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonSide {
    /// Name in tables: a directory or a variant.
    pub label: String,
    /// Name of the plan.
    pub plan: String,
    /// Start of the run.
    pub started_utc: String,
    /// Version of the program that measured.
    pub weir_version: String,
}

/// A subject that both sides measured; all its repetitions share it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparisonSubject {
    /// As in [`Cell`].
    pub architecture: String,
    /// As in [`Cell`]; `None` if the variants are the sides.
    #[serde(default)]
    pub variant: Option<String>,
    /// As in [`Cell`].
    pub clients: u64,
    /// As in [`Cell`].
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

/// The comparison of one subject, metric by metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubjectComparison {
    /// Subject.
    pub subject: ComparisonSubject,
    /// Metrics.
    pub metrics: Vec<MetricComparison>,
}

/// The comparison of one metric: a value per repetition and side, and the verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricComparison {
    /// Name of the metric, including its unit.
    pub metric: String,
    /// Lower values are better.
    pub lower_is_better: bool,
    /// The metric decides the overall result.
    pub is_headline: bool,
    /// One value per repetition.
    pub base_values: Vec<f64>,
    /// One value per repetition.
    pub other_values: Vec<f64>,
    /// Mean of the other side's repetitions divided by that of the base
    /// ([`interval::repetition_mean`]).
    pub ratio: Option<f64>,
    /// Lower bound of its 95 % interval.
    pub ratio_low: Option<f64>,
    /// Upper bound of its 95 % interval.
    pub ratio_high: Option<f64>,
    /// p-value of the exact permutation test on the same values.
    pub permutation_p: Option<f64>,
    /// Share by which two repetitions of the same subject differ in 95 % of cases.
    pub noise_share: Option<f64>,
    /// Share by which two runs of the same subject differed, if there were any.
    #[serde(default)]
    pub aa_share: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason in one clause.
    pub reason: String,
    /// Estimated repetitions per side for a decision, if the verdict is inconclusive.
    #[serde(default)]
    pub repetitions_needed: Option<u64>,
    /// Worse even if all examined metrics are taken into account (Holm).
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
