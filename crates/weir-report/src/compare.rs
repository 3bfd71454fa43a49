//! Renders a comparison of runs for the terminal and for a pull request.

use std::fmt::Write as _;

use weir_stats::run::{Comparison, FindMax, MetricComparison, SubjectComparison, Verdict};

use crate::escape::{markdown, terminal};
use crate::format;

/// Returns a note if each side has only one repetition, too few to test a difference.
pub(crate) fn single_repetition_note(comparison: &Comparison) -> Option<String> {
    let mut metrics = comparison
        .subjects
        .iter()
        .flat_map(|it| &it.metrics)
        .peekable();
    metrics.peek()?;
    let is_one =
        |metric: &MetricComparison| metric.base_values.len() <= 1 && metric.other_values.len() <= 1;
    metrics.all(is_one).then(|| {
        format!(
            "{} compared with {}: one repetition each, too few to test a difference; repeat with \
             --repetitions 5 or more",
            comparison.other.label, comparison.base.label
        )
    })
}

/// Returns the comparison as aligned text; with `color`, verdicts are coloured with ANSI sequences.
/// `all` includes metrics that do not affect the result.
pub fn render_comparison(comparison: &Comparison, all: bool, color: bool) -> String {
    if let Some(text) = single_repetition_note(comparison).filter(|_| !all) {
        return format!("{}\n", terminal(&text));
    }
    let mut out = format!(
        "base   {}\nother  {}\n{}\n",
        terminal(&comparison.base.label),
        terminal(&comparison.other.label),
        terminal(&comparison.summary)
    );
    for subject in &comparison.subjects {
        let rows: Vec<[String; COLUMNS]> = shown(subject, all).map(row).collect();
        let _ = writeln!(out, "\n{}", terminal(&subject.subject.to_string()));
        let width = |column: usize| {
            let cells = rows.iter().map(|row| &row[column]);
            let widths = cells.map(|cell| cell.chars().count());
            widths.chain([HEADS[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
        line(&mut out, &HEADS.map(str::to_owned), &widths, None);
        for (row, metric) in rows.iter().zip(shown(subject, all)) {
            line(&mut out, row, &widths, color.then_some(metric.verdict));
        }
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "note: {}", terminal(warning));
    }
    out
}

/// Returns the comparison as Markdown, for a comment.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let mut out = format!(
        "**{}**\n\nBase: {}, {}, weir {}. Other: {}, {}, weir {}. Margin {} %; {}.\n",
        markdown(&comparison.summary),
        markdown(&comparison.base.label),
        markdown(&comparison.base.started_utc),
        markdown(&comparison.base.weir_version),
        markdown(&comparison.other.label),
        markdown(&comparison.other.started_utc),
        markdown(&comparison.other.weir_version),
        format::number(Some(comparison.margin_share * 100.0)),
        match comparison.interleaved {
            true => "repetitions interleaved",
            false => "runs one after the other",
        }
    );
    for subject in &comparison.subjects {
        let _ = write!(
            out,
            "\n#### {}\n\n| {} |\n|---|{}\n",
            markdown(&subject.subject.to_string()),
            HEADS.join(" | "),
            "---:|".repeat(COLUMNS - 2) + "---|"
        );
        for metric in shown(subject, true) {
            let row = row(metric).map(|cell| markdown(&cell));
            let _ = writeln!(out, "| {} |", row.join(" | "));
        }
    }
    if !comparison.warnings.is_empty() {
        out.push('\n');
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "- {}", markdown(warning));
    }
    out
}

/// Returns a search for the maximum sustained load as aligned text: its steps and its result.
pub fn render_find_max(find_max: &FindMax) -> String {
    let mut out = String::new();
    for (step, number) in find_max.steps.iter().zip(1..) {
        let held = match step.sustained {
            Some(true) => "sustained",
            Some(false) => "not sustained",
            None => "not measured",
        };
        let value = format::number(Some(step.value));
        let _ = write!(out, "{number:>3}  {value:>12}  {held:<13}");
        if let Some(why) = &step.reason {
            let _ = write!(out, "  {}", terminal(why));
        }
        if let Some(role) = step
            .saturated_role
            .as_ref()
            .filter(|_| step.sustained != Some(true))
        {
            let _ = write!(out, " ({} saturated)", terminal(role));
        }
        out.push('\n');
    }
    let _ = write!(out, "\n{}\n", terminal(&find_max.summary));
    out
}

fn shown(subject: &SubjectComparison, all: bool) -> impl Iterator<Item = &MetricComparison> {
    let metrics = subject.metrics.iter();
    metrics.filter(move |metric| all || metric.is_headline)
}

const COLUMNS: usize = 8;
const HEADS: [&str; COLUMNS] = [
    "metric",
    "base",
    "other",
    "change",
    "95 % interval",
    "noise",
    "n",
    "verdict",
];

fn row(metric: &MetricComparison) -> [String; COLUMNS] {
    let percent = |ratio: Option<f64>| ratio.map(|ratio| format!("{:+.1}", (ratio - 1.0) * 100.0));
    let none = || format::NONE.to_owned();
    let change = percent(metric.ratio).map_or_else(none, |change| format!("{change} %"));
    let interval = percent(metric.ratio_low).zip(percent(metric.ratio_high));
    let interval = interval.map_or_else(none, |(low, high)| format!("[{low}, {high}]"));
    let noise = metric.noise_share.map_or_else(none, |share| {
        format!("±{} %", format::number(Some(share * 100.0)))
    });
    [
        metric.metric.clone(),
        format::number(metric.base_mean()),
        format::number(metric.other_mean()),
        change,
        interval,
        noise,
        format!("{}+{}", metric.base_values.len(), metric.other_values.len()),
        verdict_text(metric),
    ]
}

/// Returns the verdict; an inconclusive verdict includes the reason and the repetitions needed.
fn verdict_text(metric: &MetricComparison) -> String {
    let verdict = metric.verdict.name();
    match (metric.verdict, metric.repetitions_needed) {
        (Verdict::Inconclusive, Some(needed)) => {
            format!(
                "{verdict}: {}; needs about {needed} repetitions each",
                metric.reason
            )
        }
        (Verdict::Inconclusive, None) => format!("{verdict}: {}", metric.reason),
        _ => verdict.to_owned(),
    }
}

fn line(out: &mut String, cells: &[String; COLUMNS], widths: &[usize], verdict: Option<Verdict>) {
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
        match index {
            0 => {
                let _ = write!(out, "  {}{gap}", terminal(cell));
            }
            last if last == COLUMNS - 1 => {
                let _ = writeln!(out, "  {}", painted(&terminal(cell), verdict));
            }
            _ => {
                let _ = write!(out, "  {gap}{}", terminal(cell));
            }
        }
    }
}

fn painted(text: &str, verdict: Option<Verdict>) -> String {
    let code = match verdict {
        Some(Verdict::Worse) => "31",
        Some(Verdict::Better) => "32",
        Some(Verdict::Inconclusive) => "33",
        Some(Verdict::Equivalent) | None => return text.to_owned(),
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use weir_stats::compare;
    use weir_stats::run::{
        Cell, ComparisonSide, ComparisonSubject, FindMaxOutcome, FindMaxPhase, FindMaxStep,
    };

    use super::*;
    use crate::sweep_table::tests::run;

    fn comparison() -> Comparison {
        let metric = |name: &str, is_headline, verdict| MetricComparison {
            metric: name.to_owned(),
            is_headline,
            base_values: vec![10.0, 10.2, 9.9],
            other_values: vec![12.0, 12.1, 11.9],
            ratio: Some(1.2),
            ratio_low: Some(1.16),
            ratio_high: Some(1.24),
            noise_share: Some(0.031),
            verdict,
            reason: "the interval reaches beyond the margin of 3 %".to_owned(),
            repetitions_needed: Some(9),
            ..MetricComparison::default()
        };
        let side = |label: &str| ComparisonSide {
            label: label.to_owned(),
            ..ComparisonSide::default()
        };
        Comparison {
            base: side("runs/a|b"),
            other: side("\x1b[2Jruns/b"),
            margin_share: 0.03,
            subjects: vec![SubjectComparison {
                subject: ComparisonSubject {
                    architecture: "gateway".to_owned(),
                    clients: 100,
                    ..ComparisonSubject::default()
                },
                metrics: vec![
                    metric("response_p99_ms", true, Verdict::Worse),
                    metric("response_p50_ms", false, Verdict::Inconclusive),
                ],
            }],
            warnings: vec!["kernel: 6.1, 6.12".to_owned()],
            summary: "worse: response_p99_ms (gateway, 100 clients) +20.0 %.".to_owned(),
            ..Comparison::default()
        }
    }

    #[test]
    fn terminal_shows_deciding_metrics() {
        let text = render_comparison(&comparison(), false, false);
        assert!(text.contains("worse: response_p99_ms"), "{text}");
        assert!(
            text.contains("+20.0 %") && text.contains("[+16.0, +24.0]"),
            "{text}"
        );
        assert!(text.contains("±3.10 %") && text.contains("3+3"), "{text}");
        assert!(
            !text.contains("response_p50_ms") && !text.contains('\x1b'),
            "{text}"
        );
        let all = render_comparison(&comparison(), true, true);
        assert!(all.contains("response_p50_ms"), "{all}");
        assert!(all.contains("needs about 9 repetitions each"), "{all}");
        assert!(all.contains("\x1b[31mworse\x1b[0m"), "{all}");
    }

    /// Parses a number in the format of [`format::number`].
    fn shown_number(text: &str) -> f64 {
        text.replace(',', "").parse().unwrap()
    }

    proptest! {
        #[test]
        fn change_is_quotient_of_printed_values(
            base in prop::collection::vec(0.02..5e4_f64, 1..6),
            other in prop::collection::vec(0.02..5e4_f64, 1..6),
            turn in 0_usize..6,
        ) {
            let cells = |values: &[f64]| -> Vec<Cell> {
                let cell = |(value, repetition): (&f64, u64)| Cell {
                    architecture: "produce".to_owned(),
                    repetition,
                    figures: BTreeMap::from([("fetch_time_ms".to_owned(), *value)]),
                    ..Cell::default()
                };
                values.iter().zip(1..).map(cell).collect()
            };
            let row_of = |base: &[f64], other: &[f64]| {
                let (base, other) = (run(cells(base)), run(cells(other)));
                let named = |run| compare::NamedRun { label: "", run };
                let options = compare::CompareOptions::default();
                let found = compare::runs(named(&base), named(&other), &[], &options);
                row(&found.subjects[0].metrics[0])
            };
            let shown = row_of(&base, &other);
            let quotient = shown_number(&shown[2]) / shown_number(&shown[1]);
            let change: f64 = shown[3].trim_end_matches(" %").parse().unwrap();
            let ratio = 1.0 + change / 100.0;
            // Both values have three digits, or two below 0.0095; the change has one decimal.
            let decimals = |text: &str| text.split('.').nth(1).map_or(0, str::len) as i32;
            let digits = |text: &str| 0.5 * 10_f64.powi(-decimals(text));
            let slack = |at: usize| digits(&shown[at]) / shown_number(&shown[at]);
            let slack: f64 = [1, 2].map(slack).iter().sum();
            prop_assert!(
                (ratio - quotient).abs() <= quotient * slack * 1.1 + 0.0006,
                "{:?}: {} instead of {}", shown, ratio, quotient
            );
            let (mut turned, by) = (other.clone(), turn % other.len());
            turned.rotate_left(by);
            let again = row_of(&base, &turned);
            prop_assert_eq!(&again[1..4], &shown[1..4]);
        }
    }

    #[test]
    fn markdown_comparison_is_a_table() {
        let text = comparison_markdown(&comparison());
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("| resp"))
            .collect();
        assert_eq!(rows.len(), 2, "{text}");
        let columns = |row: &str| row.matches(" | ").count() + 1;
        assert!(rows.iter().all(|row| columns(row) == COLUMNS), "{text}");
        assert!(
            text.contains("- kernel: 6.1, 6.12") && !text.contains("a|b"),
            "{text}"
        );
    }

    #[test]
    fn find_max_lists_its_steps() {
        let step = |value: f64, held, why: Option<&str>| FindMaxStep {
            value,
            sustained: held,
            reason: why.map(str::to_owned),
            saturated_role: Some("broker".to_owned()),
            ..FindMaxStep::default()
        };
        let find_max = FindMax {
            variable: "rate_per_s".to_owned(),
            architecture: "standalone".to_owned(),
            steps: vec![
                step(1000.0, Some(true), None),
                FindMaxStep {
                    phase: FindMaxPhase::ConfirmAbove,
                    ..step(2000.0, Some(false), Some("too late"))
                },
            ],
            outcome: FindMaxOutcome::Inconclusive {
                reason: String::new(),
            },
            summary: "Nothing was found.".to_owned(),
        };
        let text = render_find_max(&find_max);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("1,000  sustained    "), "{text}");
        assert!(lines[1].ends_with("too late (broker saturated)"), "{text}");
        assert_eq!(lines[3], "Nothing was found.");
    }
}
