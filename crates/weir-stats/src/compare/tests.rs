//! Whole comparisons, and the error rate for equal systems.

use std::collections::BTreeMap;

use super::*;
use crate::run::{Cell, CellStatus, LatencySummary, STAGE_RESPONSE};
use crate::steady_state::tests::Noise;

/// Returns a run of one subject with the given p99 of each repetition.
fn run(p99_ms: &[f64]) -> Run {
    let cells = p99_ms.iter().zip(1..).map(|(ms, repetition)| {
        let summary = LatencySummary {
            p99_us: Some(ms * 1e3),
            ..LatencySummary::default()
        };
        Cell {
            architecture: "gateway".to_owned(),
            clients: 100,
            repetition,
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), summary)]),
            ..Cell::default()
        }
    });
    Run {
        cells: cells.collect(),
        ..crate::run::tests::run()
    }
}

fn compared(base: &[f64], other: &[f64], margin_share: f64) -> Comparison {
    let (base, other) = (run(base), run(other));
    let options = CompareOptions {
        margin_share,
        ..CompareOptions::default()
    };
    let named = |label, run| NamedRun { label, run };
    runs(named("a", &base), named("b", &other), &[], &options)
}

/// Returns the comparison of the p99.
fn metric_of(comparison: &Comparison) -> &MetricComparison {
    let metrics = &comparison.subjects[0].metrics;
    let found = metrics.iter().find(|m| m.metric == "response_p99_ms");
    found.expect("both sides have it")
}

/// Returns values of `repetitions` runs of a system: its level, times the variation between runs,
/// times the mean of dependent windows.
fn repetitions_of(noise: &mut Noise, level: f64, repetitions: usize, run_share: f64) -> Vec<f64> {
    let one = |noise: &mut Noise| {
        let run = run_share * noise.normal();
        let (mut window, mut sum) = (noise.normal(), 0.0);
        for _ in 0..WINDOWS {
            // Each window depends on the previous one with factor 0.6.
            window = 0.6 * window + 0.8 * noise.normal();
            sum += 0.1 * window;
        }
        level * (run + sum / f64::from(WINDOWS)).exp()
    };
    (0..repetitions).map(|_| one(noise)).collect()
}

const WINDOWS: u32 = 30;

/// Returns the share of 200 comparisons with fixed seeds that have one of `verdicts`.
fn share_of(verdicts: &[Verdict], factor: f64, run_share: f64, margin_share: f64) -> f64 {
    let mut count = 0;
    for seed in 0..200 {
        let mut noise = Noise::new(seed);
        let base = repetitions_of(&mut noise, 10.0, 5, run_share);
        let other = repetitions_of(&mut noise, 10.0 * factor, 5, run_share);
        let comparison = compared(&base, &other, margin_share);
        count += usize::from(verdicts.contains(&metric_of(&comparison).verdict));
    }
    count as f64 / 200.0
}

/// The strictest case: any difference counts. At 5 %, a procedure that treats windows as runs would
/// find a difference in half of these.
#[test]
fn equal_systems_are_rarely_found_different() {
    let different = [Verdict::Better, Verdict::Worse];
    for run_share in [0.0, 0.03, 0.1] {
        let called = share_of(&different, 1.0, run_share, 0.0);
        assert!(called <= 0.08, "spread {run_share}: {called}");
        assert!(
            called > 0.0,
            "spread {run_share}: a 95 % interval must fail sometimes"
        );
        let with_margin = share_of(&different, 1.0, run_share, 0.03);
        assert!(with_margin <= called);
    }
}

#[test]
fn different_systems_are_found_different() {
    let shares = [
        share_of(&[Verdict::Worse], 1.2, 0.03, 0.03),
        share_of(&[Verdict::Better], 0.82, 0.03, 0.03),
        share_of(&[Verdict::Equivalent], 1.0, 0.0, 0.1),
    ];
    assert!(shares.iter().all(|share| *share >= 0.9), "{shares:?}");
    assert_eq!(share_of(&[Verdict::Better], 1.15, 0.03, 0.03), 0.0);
}

#[test]
fn comparison_has_summary_and_warnings() {
    let base = [10.0, 10.1, 9.9, 10.05, 9.95];
    let comparison = compared(&base, &base.map(|ms| ms * 1.2), 0.03);
    assert_eq!(
        comparison.summary,
        "worse: response_p99_ms (gateway, 100 clients) +20.0 %."
    );
    let metric = metric_of(&comparison);
    assert!(metric.is_headline && metric.is_significantly_worse);
    assert_eq!(metric.base_values, base);
    assert!(comparison.warnings[0].starts_with("the runs were made one after the other"));
    let few = compared(&base[..2], &base[..2], 0.03);
    assert!(
        few.warnings
            .iter()
            .any(|text| text.starts_with("fewer than 3"))
    );
    let nothing = compared(&base, &[], 0.03);
    assert_eq!(nothing.summary, "Nothing was measured on both sides.");
    assert_eq!(
        nothing.warnings[0],
        "only the base has a valid cell of gateway, 100 clients"
    );
}

#[test]
fn repeated_runs_widen_the_margin() {
    let base = [10.0, 10.1, 9.9, 10.05, 9.95];
    let (ours, again) = (run(&base), run(&base.map(|ms| ms * 1.3)));
    let other = run(&base.map(|ms| ms * 1.2));
    let named = |label, run| NamedRun { label, run };
    let comparison = runs(
        named("a", &ours),
        named("b", &other),
        &[&again],
        &CompareOptions::default(),
    );
    let metric = metric_of(&comparison);
    assert!((metric.aa_share.unwrap() - 0.3).abs() < 1e-9);
    assert_eq!(metric.verdict, Verdict::Equivalent, "{metric:?}");
    assert!(!metric.is_significantly_worse && comparison.warnings.is_empty());
}

#[test]
fn aa_test_widens_the_margin() {
    let base = [10.0, 10.1, 9.9, 10.05, 9.95];
    let (ours, other) = (run(&base), run(&base.map(|ms| ms * 1.2)));
    let (mut twice, mut second) = (run(&base), run(&base.map(|ms| ms * 1.25)));
    for (side, name) in [&mut twice, &mut second].into_iter().zip(aa_variants(None)) {
        for cell in &mut side.cells {
            cell.variant = Some(name.clone());
        }
    }
    twice.cells.append(&mut second.cells);
    let named = |label, run| NamedRun { label, run };
    let options = CompareOptions::default();
    let comparison = runs(named("a", &ours), named("b", &other), &[&twice], &options);
    let metric = metric_of(&comparison);
    assert!((metric.aa_share.unwrap() - 0.25).abs() < 1e-9);
    assert_eq!(metric.verdict, Verdict::Equivalent, "{metric:?}");
    let itself = &variants(&twice, &options)[0];
    assert_eq!(itself.other.label, "A again");
}

#[test]
fn differences_of_the_environment_are_listed() {
    let (ours, mut theirs) = (run(&[1.0, 2.0]), run(&[1.0, 2.0]));
    theirs.machine.kernel = "7.0".to_owned();
    theirs.settings[0].settings[0].value = "5".to_owned();
    theirs.cells[1].status = CellStatus::Invalid { reasons: vec![] };
    let named = |label, run| NamedRun { label, run };
    let options = CompareOptions::default();
    let warnings = runs(named("a", &ours), named("b", &theirs), &[], &options).warnings;
    let has = |text: &str| assert!(warnings.iter().any(|w| w == text), "{warnings:?}");
    has("kernel: , 7.0");
    has("producer.linger.ms: 0, 5");
    has("other side: 1 invalid cells were excluded");
}

#[test]
fn acknowledgement_times_decide_without_receivers() {
    let mut run = run(&[1.0, 2.0]);
    for cell in &mut run.cells {
        let acknowledged = cell.latency.remove(STAGE_RESPONSE).unwrap();
        cell.latency
            .insert(crate::run::STAGE_PUBLISH_ACK.to_owned(), acknowledged);
        cell.figures.insert("cpu_s_per_gb".to_owned(), 2.0);
    }
    let named = |label| NamedRun { label, run: &run };
    let comparison = runs(named("a"), named("b"), &[], &CompareOptions::default());
    let metrics = &comparison.subjects[0].metrics;
    let headlines: Vec<&str> = metrics
        .iter()
        .filter(|metric| metric.is_headline)
        .map(|metric| metric.metric.as_str())
        .collect();
    assert_eq!(headlines, ["publish_ack_p99_ms", "cpu_s_per_gb"]);
}

#[test]
fn variants_are_compared_with_the_first() {
    let base = [10.0, 10.1, 9.9, 10.05, 9.95];
    let (mut one, mut four) = (run(&base), run(&base.map(|ms| ms * 0.5)));
    let name = |run: &mut Run, name: &str| {
        for cell in &mut run.cells {
            cell.variant = Some(name.to_owned());
        }
    };
    name(&mut one, "threads-1");
    name(&mut four, "threads-4");
    one.cells.append(&mut four.cells);
    let comparisons = variants(&one, &CompareOptions::default());
    assert_eq!(comparisons.len(), 1);
    let comparison = &comparisons[0];
    assert_eq!(
        (
            comparison.base.label.as_str(),
            comparison.other.label.as_str()
        ),
        ("threads-1", "threads-4")
    );
    assert!(comparison.interleaved && comparison.warnings.is_empty());
    assert_eq!(metric_of(comparison).verdict, Verdict::Better);
    assert!(variants(&run(&base), &CompareOptions::default()).is_empty());
}

#[test]
fn inconclusive_metrics_are_one_clause() {
    let few = compared(&[10.0, 11.0], &[12.0, 13.3], 0.03);
    let summary = &few.summary;
    assert!(
        summary.starts_with("1 of 1 inconclusive: 2 repetitions, about "),
        "{summary}"
    );
    let text = answer(&few);
    assert!(
        text.starts_with("No difference between a and b is shown: 1 of 1 metric inconclusive (2 "),
        "{text}"
    );
    let one = compared(&[10.0], &[11.0], 0.03);
    assert_eq!(
        one.summary,
        "1 of 1 inconclusive: 1 repetition, at least 3 needed."
    );
}

#[test]
fn answer_names_the_largest_difference() {
    let base = [10.0, 10.1, 9.9];
    let text = answer(&compared(&base, &[12.0, 12.1, 11.9], 0.03));
    let expected = "b compared with a: worse in 1 of 1 metric, most in response_p99_ms of gateway, \
                    100 clients: +20.0 %.";
    assert_eq!(text, expected);
    let equal = answer(&compared(&base, &base, 0.5));
    assert_eq!(equal, "a and b are equivalent in 1 metric.");
}
