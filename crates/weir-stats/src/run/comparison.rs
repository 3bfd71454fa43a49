//! Two sides of a comparison, metric by metric.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Cell;
use crate::interval;

/// Two runs, or two variants of one run, beside each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The side that the other is held against.
    pub base: ComparisonSide,
    /// The side that is judged.
    pub other: ComparisonSide,
    /// Whether repetitions of both sides took turns in one run: what drifts then drifts for both.
    pub interleaved: bool,
    /// A difference up to this share does not matter.
    pub margin_share: f64,
    /// What both sides measured.
    pub subjects: Vec<SubjectComparison>,
    /// What only one side measured, and what spoils the comparison.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The answer in a sentence.
    pub summary: String,
}

/// One side.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonSide {
    /// Name in tables: a folder, or a variant.
    pub label: String,
    /// Name of the plan.
    pub plan: String,
    /// Start of the run.
    pub started_utc: String,
    /// Version of the program that measured.
    pub weir_version: String,
}

/// What was measured on both sides; repetitions share it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparisonSubject {
    /// As in [`Cell`].
    pub architecture: String,
    /// As in [`Cell`]; `None` when the variants are the sides.
    #[serde(default)]
    pub variant: Option<String>,
    /// As in [`Cell`].
    pub clients: u64,
    /// As in [`Cell`].
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
}

impl ComparisonSubject {
    /// What a cell is a repetition of.
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
            // Client libraries are what is compared.
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

/// One subject, metric by metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubjectComparison {
    /// Which.
    pub subject: ComparisonSubject,
    /// Its metrics.
    pub metrics: Vec<MetricComparison>,
}

/// One metric: a value per repetition and side, and what they say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricComparison {
    /// Name of the metric, which carries its unit.
    pub metric: String,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// Whether it decides what the comparison as a whole says.
    pub is_headline: bool,
    /// One value per repetition.
    pub base_values: Vec<f64>,
    /// One value per repetition.
    pub other_values: Vec<f64>,
    /// Mean of the other side's repetitions over that of the base ([`interval::repetition_mean`]).
    pub ratio: Option<f64>,
    /// Lower bound of its 95 % interval.
    pub ratio_low: Option<f64>,
    /// Upper bound of its 95 % interval.
    pub ratio_high: Option<f64>,
    /// Exact permutation test of the same values: chance of such a difference if there is none.
    pub permutation_p: Option<f64>,
    /// By what share two repetitions of the same thing differ, in 95 of 100 cases.
    pub noise_share: Option<f64>,
    /// By what share two runs of the same thing differed, if such were at hand.
    #[serde(default)]
    pub aa_share: Option<f64>,
    /// The judgement.
    pub verdict: Verdict,
    /// Why, one clause.
    pub why: String,
    /// Repetitions per side that would probably decide, where these did not.
    #[serde(default)]
    pub repetitions_needed: Option<u64>,
    /// Still worse when all metrics that were looked at are taken into account (Holm).
    #[serde(default)]
    pub is_surely_worse: bool,
}

impl Comparison {
    /// Returns `true` if a metric that decides has enough repetitions on both sides to be called worse.
    pub fn has_decided(&self) -> bool {
        let metrics = self.subjects.iter().flat_map(|subject| &subject.metrics);
        metrics.into_iter().any(|metric| {
            let fewest = metric.base_values.len().min(metric.other_values.len());
            metric.is_headline && fewest >= 2
        })
    }
}

impl MetricComparison {
    /// Returns the value that stands for the repetitions of the base.
    pub fn base_mean(&self) -> Option<f64> {
        interval::repetition_mean(&self.base_values)
    }

    /// Returns the value that stands for the repetitions of the other side.
    pub fn other_mean(&self) -> Option<f64> {
        interval::repetition_mean(&self.other_values)
    }
}

/// What a comparison of one metric says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is beyond the margin, on the good side.
    Better,
    /// The whole interval is beyond the margin, on the bad side.
    Worse,
    /// The whole interval is inside the margin.
    Equivalent,
    /// Neither can be said.
    #[default]
    Inconclusive,
}

impl Verdict {
    /// The word in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
        }
    }
}
