//! Combines several runs into one, so that every table and chart shows them side by side.
//!
//! Each run gets a letter, which becomes the variant of its cells. Every other run is compared with
//! the first, as `weir bench compare` does.

use std::path::Path;

use weir_stats::compare::{self, CompareOptions, NamedRun};
use weir_stats::run::{Comparison, Confidence, ConfidenceLevel, Run, RunOutcome};

use crate::run_dir::{ReportError, RunData};
use crate::view;

pub(crate) const PLAN: &str = "side by side";
/// Letters of the runs; their number limits the number of runs.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Reads run directories, combines them and compares every other run with the first.
pub fn overlay(dirs: &[&Path]) -> Result<RunData, ReportError> {
    let (mut whole, runs) = combined(dirs)?;
    let named = |index: usize, run| NamedRun {
        label: &LETTERS[index..=index],
        run,
    };
    let options = CompareOptions::default();
    if let Some((first, others)) = runs.split_first() {
        let comparisons = others.iter().enumerate().map(|(index, other)| {
            compare::runs(named(0, first), named(index + 1, other), &[], &options)
        });
        conclude(&mut whole.run, comparisons.collect());
    }
    Ok(whole)
}

/// Reads two run directories and combines them; `comparison` is that of the second with the first.
pub fn compared_pair(dirs: [&Path; 2], mut comparison: Comparison) -> Result<RunData, ReportError> {
    let (mut whole, _) = combined(&dirs)?;
    [comparison.base.label, comparison.other.label] = ["A", "B"].map(str::to_owned);
    conclude(&mut whole.run, vec![comparison]);
    Ok(whole)
}

/// Sets the answer, which is that of the comparisons.
fn conclude(whole: &mut Run, comparisons: Vec<Comparison>) {
    let answers: Vec<String> = comparisons.iter().map(compare::answer).collect();
    if !answers.is_empty() {
        whole.answer = answers.join(" ");
    }
    whole.comparisons = comparisons;
}

/// Returns the combined run without comparisons, and the single runs.
fn combined(dirs: &[&Path]) -> Result<(RunData, Vec<Run>), ReportError> {
    if dirs.len() > LETTERS.len() {
        return Err(ReportError::TooMany(dirs.len(), LETTERS.len()));
    }
    let mut runs = Vec::new();
    for (letter, dir) in LETTERS.chars().zip(dirs) {
        runs.push((letter.to_string(), RunData::read(dir)?));
    }
    let mut whole = match runs.first() {
        Some((_, first)) => RunData::without_logs(frame(&first.run)),
        None => return Err(ReportError::NoRuns),
    };
    let mut single = Vec::new();
    for ((letter, data), dir) in runs.into_iter().zip(dirs) {
        describe(&mut whole.run, &letter, &data.run, dir);
        single.push(data.run.clone());
        take(&mut whole, &letter, data);
    }
    Ok((whole, single))
}

/// Returns the parts shared by all runs, taken from the first run.
fn frame(first: &Run) -> Run {
    Run {
        plan: PLAN.to_owned(),
        title: format!("{}: runs side by side", first.title),
        outcome: RunOutcome::Complete,
        // The lowest of all runs, with the reasons of each.
        confidence: Confidence {
            level: ConfidenceLevel::Conclusive,
            reasons: Vec::new(),
        },
        answer: format!("Results of one run: {}", view::answer(first)),
        headline: None,
        aa_test: None,
        verdict: String::new(),
        thresholds: Vec::new(),
        settings: Vec::new(),
        cells: Vec::new(),
        comparisons: Vec::new(),
        find_max: None,
        libraries: None,
        reference: None,
        notes: Vec::new(),
        warnings: Vec::new(),
        files: Vec::new(),
        ..first.clone()
    }
}

fn describe(whole: &mut Run, letter: &str, run: &Run, dir: &Path) {
    whole.notes.push(format!(
        "{letter}: {} ({}, {}, weir {}): {}",
        dir.display(),
        run.plan,
        run.started_utc,
        run.weir_version,
        run.verdict
    ));
    let (own, first) = (&run.machine, &whole.machine);
    if (&own.cpu_model, own.cpu_cores) != (&first.cpu_model, first.cpu_cores) {
        let text =
            format!("{letter} ran on a different machine than A; results are not comparable");
        whole.warnings.push(text);
    }
    if run.title != whole.title.trim_end_matches(": runs side by side") {
        let text = format!("{letter} is a run of the different plan {}", run.plan);
        whole.warnings.push(text);
    }
    let texts = run.warnings.iter().map(|text| format!("{letter}: {text}"));
    whole.warnings.extend(texts);
    for threshold in &run.thresholds {
        let mut threshold = threshold.clone();
        threshold.scope = format!("{letter}, {}", threshold.scope);
        whole.thresholds.push(threshold);
    }
    for group in &run.settings {
        let mut group = group.clone();
        group.part = format!("{letter}: {}", group.part);
        whole.settings.push(group);
    }
    whole.finished_utc = whole.finished_utc.clone().max(run.finished_utc.clone());
    whole.outcome = worse(whole.outcome, run.outcome);
    let (all, own) = (&mut whole.confidence, &run.confidence);
    all.level = all.level.min(own.level);
    let reasons = own.reasons.iter();
    all.reasons
        .extend(reasons.map(|reason| format!("{letter}: {reason}")));
}

fn worse(one: RunOutcome, other: RunOutcome) -> RunOutcome {
    use RunOutcome::{Complete, Incomplete, Interrupted, Invalid, ThresholdFailed};
    let mut by_weight = [Invalid, Interrupted, Incomplete, ThresholdFailed].into_iter();
    let found = by_weight.find(|outcome| [one, other].contains(outcome));
    found.unwrap_or(Complete)
}

fn take(whole: &mut RunData, letter: &str, mut data: RunData) {
    for mut cell in std::mem::take(&mut data.run.cells) {
        let log = data.take_log(&cell);
        cell.variant = Some(match cell.variant.take() {
            Some(variant) => format!("{variant} {letter}"),
            None => letter.to_owned(),
        });
        whole.add(cell, log);
    }
}

/// Returns the index of a run, from the letter at the end of a subject's name.
pub(crate) fn place(subject: &str) -> Option<usize> {
    let (_, letter) = subject.rsplit_once(' ')?;
    (letter.len() == 1).then(|| LETTERS.find(letter))?
}
