//! How far the results of a run can be relied on, with the reasons in numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Cell, CellStatus, FindMax, FindMaxOutcome, Libraries, Repetitions, Run, RunOutcome,
    ThresholdCounts,
};

/// How far the results of a run can be relied on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// Level of confidence.
    pub level: ConfidenceLevel,
    /// Reasons why the run is not conclusive, with counts: `3 of 9 cells invalid`. Empty for a
    /// conclusive run.
    pub reasons: Vec<String>,
}

/// A level of confidence in results.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ConfidenceLevel {
    /// No result describes the system under test.
    #[default]
    NotUsable,
    /// Results of the right order of magnitude: another run may differ noticeably.
    Indicative,
    /// Repeated, undisturbed measurements with enough samples.
    Conclusive,
}

impl ConfidenceLevel {
    /// Returns the words for readers: `conclusive`, `indicative`, `not usable`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Conclusive => "conclusive",
            Self::Indicative => "indicative",
            Self::NotUsable => "not usable",
        }
    }
}

impl Confidence {
    /// Computes the confidence in a run from its outcome and measurements.
    pub fn of(run: &Run) -> Self {
        let reasons = reasons(run);
        let level = match run.outcome {
            RunOutcome::Invalid => ConfidenceLevel::NotUsable,
            _ if !has_results(run) => ConfidenceLevel::NotUsable,
            _ if reasons.is_empty() => ConfidenceLevel::Conclusive,
            _ => ConfidenceLevel::Indicative,
        };
        Self { level, reasons }
    }

    /// Returns `true` if nothing limits the confidence.
    pub fn is_conclusive(&self) -> bool {
        self.level == ConfidenceLevel::Conclusive
    }

    /// Returns the level and its reasons: `indicative: 1 repetition, 3 of 9 cells invalid`.
    pub fn text(&self) -> String {
        let level = self.level.words();
        match self.reasons.is_empty() {
            true => level.to_owned(),
            false => format!("{level}: {}", self.reasons.join(", ")),
        }
    }
}

fn has_results(run: &Run) -> bool {
    let has_samples = |it: &Libraries| it.samples.iter().any(|sample| sample.invalid.is_empty());
    run.cells.iter().any(Cell::is_valid) || run.libraries.as_ref().is_some_and(has_samples)
}

fn reasons(run: &Run) -> Vec<String> {
    let mut reasons = Vec::new();
    match run.outcome {
        RunOutcome::Interrupted => reasons.push("interrupted".to_owned()),
        RunOutcome::Incomplete => reasons.push("a requested subject took no part".to_owned()),
        RunOutcome::Complete | RunOutcome::ThresholdFailed | RunOutcome::Invalid => {}
    }
    match (&run.find_max, &run.libraries) {
        (Some(search), _) => reasons.extend(search_reasons(search)),
        (None, Some(libraries)) => reasons.extend(library_reasons(libraries)),
        (None, None) => {}
    }
    // Repetition 0 is the warm-up of the broker.
    let cells: Vec<&Cell> = run.cells.iter().filter(|it| it.repetition > 0).collect();
    // The steps of a search are single cells by design; its result was confirmed by repetition.
    if run.find_max.is_none() && !cells.is_empty() {
        reasons.extend(repetition_reason(&cells));
        reasons.extend(cell_reasons(&cells));
    }
    reasons.extend(disturbance(&cells));
    let undecided = ThresholdCounts::of(&run.thresholds).undecided;
    reasons.extend(share(
        undecided,
        run.thresholds.len(),
        "thresholds undecided",
    ));
    reasons
}

fn search_reasons(search: &FindMax) -> Option<String> {
    match &search.outcome {
        FindMaxOutcome::Found { .. } => None,
        // The answer states why.
        FindMaxOutcome::AtLeast { .. } => Some("limit not reached".to_owned()),
        FindMaxOutcome::Inconclusive { reason } => Some(reason.clone()),
    }
}

fn library_reasons(libraries: &Libraries) -> Vec<String> {
    let mut reasons = Vec::new();
    let cells = libraries.cells.iter();
    let measured = cells.clone().filter(|cell| cell.skipped.is_none());
    if let Some(least) = measured.map(|cell| cell.repetitions).min() {
        reasons.extend(too_few(u64::from(least)));
    }
    let skipped = cells.filter(|cell| cell.skipped.is_some()).count();
    reasons.extend(share(skipped, libraries.cells.len(), "cells skipped"));
    let invalid = libraries.samples.iter();
    let invalid = invalid.filter(|sample| !sample.invalid.is_empty()).count();
    reasons.extend(share(invalid, libraries.samples.len(), "samples invalid"));
    reasons
}

/// Returns a reason if a measured load point has too few valid repetitions for an interval.
fn repetition_reason(cells: &[&Cell]) -> Option<String> {
    let points = Repetitions::group(cells.iter().copied());
    let valid = points.iter().map(|point| point.valid().count() as u64);
    too_few(valid.filter(|count| *count > 0).min()?)
}

fn too_few(repetitions: u64) -> Option<String> {
    match repetitions {
        REPETITIONS_MIN.. => None,
        1 => Some("1 repetition".to_owned()),
        few => Some(format!("{few} repetitions")),
    }
}

fn cell_reasons(cells: &[&Cell]) -> Vec<String> {
    let count = |test: fn(&Cell) -> bool| cells.iter().filter(|cell| test(cell)).count();
    let is_invalid = |cell: &Cell| matches!(cell.status, CellStatus::Invalid { .. });
    let is_skipped = |cell: &Cell| matches!(cell.status, CellStatus::Skipped { .. });
    let has_few_samples =
        |cell: &Cell| cell.is_valid() && cell.response().is_some_and(|it| it.p99_us.is_none());
    let is_unsteady =
        |cell: &Cell| cell.is_valid() && cell.steadiness.as_ref().is_some_and(|it| !it.is_steady);
    let all = cells.len();
    [
        share(count(is_invalid), all, "cells invalid"),
        share(count(is_skipped), all, "cells skipped"),
        share(
            count(has_few_samples),
            all,
            "cells with too few samples for p99",
        ),
        share(count(is_unsteady), all, "cells not in a steady state"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns a reason if a noticeable part of the measured windows was disturbed.
fn disturbance(cells: &[&Cell]) -> Option<String> {
    let valid = || cells.iter().filter(|cell| cell.is_valid());
    let measured_s: f64 = valid().map(|cell| cell.hold_s).sum();
    let spans = valid().flat_map(|cell| &cell.noisy);
    let noisy_s: f64 = spans.map(|span| span.until_s - span.from_s).sum();
    (noisy_s > measured_s * DISTURBED_SHARE_MAX)
        .then(|| format!("{noisy_s:.0} of {measured_s:.0} seconds disturbed"))
}

/// Returns for example `3 of 9 cells invalid`; `None` for none.
fn share(count: usize, all: usize, what: &str) -> Option<String> {
    (count > 0).then(|| format!("{count} of {all} {what}"))
}

/// Number of repetitions below which an interval says little.
const REPETITIONS_MIN: u64 = 3;
/// Share of disturbed seconds that is usual on an otherwise idle machine.
const DISTURBED_SHARE_MAX: f64 = 0.1;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::{LatencySummary, NoisySpan, STAGE_RESPONSE};

    fn cell(repetition: u64) -> Cell {
        let summary = LatencySummary {
            p99_us: Some(1.0),
            ..LatencySummary::default()
        };
        Cell {
            architecture: "gateway".to_owned(),
            repetition,
            hold_s: 8.0,
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), summary)]),
            ..Cell::default()
        }
    }

    fn run(cells: Vec<Cell>) -> Run {
        Run {
            cells,
            ..Run::default()
        }
    }

    #[test]
    fn repeated_undisturbed_measurements_are_conclusive() {
        let confidence = Confidence::of(&run((1..=3).map(cell).collect()));
        assert!(confidence.is_conclusive(), "{confidence:?}");
        assert_eq!(confidence.text(), "conclusive");
    }

    #[test]
    fn reasons_have_counts() {
        let mut cells: Vec<Cell> = (1..=3).map(cell).collect();
        cells[0].status = CellStatus::Invalid {
            reasons: vec!["late".to_owned()],
        };
        cells[1].noisy = vec![NoisySpan {
            from_s: 0.0,
            until_s: 7.0,
            reason: "steal".to_owned(),
        }];
        if let Some(summary) = cells[2].latency.get_mut(STAGE_RESPONSE) {
            summary.p99_us = None;
        }
        let text = Confidence::of(&run(cells)).text();
        assert_eq!(
            text,
            "indicative: 2 repetitions, 1 of 3 cells invalid, 1 of 3 cells with too few samples \
             for p99, 7 of 16 seconds disturbed"
        );
    }

    #[test]
    fn runs_without_results_are_not_usable() {
        assert_eq!(Confidence::of(&run(Vec::new())).text(), "not usable");
        let mut invalid = run(vec![cell(1)]);
        invalid.outcome = RunOutcome::Invalid;
        let level = Confidence::of(&invalid).level;
        assert_eq!(level, ConfidenceLevel::NotUsable);
    }

    #[test]
    fn an_interrupted_run_says_so() {
        let mut run = run((1..=3).map(cell).collect());
        run.outcome = RunOutcome::Interrupted;
        assert_eq!(Confidence::of(&run).text(), "indicative: interrupted");
    }
}
