//! Renders a comparison of runs for the terminal and for a pull request.

use std::fmt::Write as _;

use maud::Markup;
use weir_stats::run::{Comparison, FindMax, MetricComparison, SubjectComparison, Verdict};

use crate::escape::{markdown, terminal};
use crate::format;
use crate::shared;
use crate::table::{Field, ReportTable};

/// Returns a note if each side has only one repetition, too few to test a difference.
pub(crate) fn single_repetition_note(comparison: &Comparison) -> Option<String> {
    let subjects = comparison.subjects.iter();
    let mut metrics = subjects.flat_map(|it| &it.metrics).peekable();
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
/// `all` includes metrics that do not affect the result, and inconclusive ones.
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
    let rows = if all { Rows::All } else { Rows::Deciding };
    for (title, table) in tables(comparison, rows, no_drawing) {
        let _ = writeln!(out, "\n{}", terminal(&title));
        out.push_str(&table.text("  ", usize::MAX, color));
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "note: {}", terminal(warning));
    }
    out
}

/// Returns the comparison as Markdown, for a comment.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let [base, other] = [&comparison.base, &comparison.other].map(|side| {
        let texts = [&side.label, &side.started_utc].map(|text| markdown(text));
        format!(
            "{}, weir {}",
            texts.join(", "),
            markdown(&side.weir_version)
        )
    });
    let order = match comparison.interleaved {
        true => "repetitions interleaved",
        false => "runs one after the other",
    };
    let mut out = format!(
        "**{}**\n\nBase: {base}. Other: {other}. Margin {} %; {order}.\n",
        markdown(&comparison.summary),
        format::number(Some(comparison.margin_share * 100.0))
    );
    tables_markdown(&mut out, comparison, Rows::Decided);
    let undecided = undecided(comparison);
    if undecided > 0 {
        let _ = write!(
            out,
            "\n<details><summary>{undecided} inconclusive metrics</summary>\n"
        );
        tables_markdown(&mut out, comparison, Rows::Undecided);
        out.push_str("\n</details>\n");
    }
    if !comparison.warnings.is_empty() {
        out.push('\n');
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "- {}", markdown(warning));
    }
    out
}

/// Returns a search for the maximum sustained load as aligned text: its steps and its result. In
/// an A/A test the second search follows.
pub fn render_find_max(find_max: &FindMax) -> String {
    let all = shared::searches(find_max).map(|search| {
        let steps = shared::steps(search).select(4, &[0, 2, 4, 5]);
        let summary = terminal(&search.summary);
        format!("{}\n{summary}\n", steps.text("  ", usize::MAX, false))
    });
    all.collect::<Vec<String>>().join("\n")
}

fn no_drawing(_: &MetricComparison) -> Markup {
    Markup::default()
}

fn tables_markdown(out: &mut String, comparison: &Comparison, rows: Rows) {
    for (title, table) in tables(comparison, rows, no_drawing) {
        let _ = write!(out, "\n#### {}\n\n{}", markdown(&title), table.markdown());
    }
}

/// The metrics of a comparison that a table shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    All,
    /// Metrics that decide the overall result, with a verdict.
    Deciding,
    /// Metrics with a verdict.
    Decided,
    /// Inconclusive metrics.
    Undecided,
}

impl Rows {
    pub(crate) fn of(is_decided: bool) -> Self {
        match is_decided {
            true => Self::Decided,
            false => Self::Undecided,
        }
    }

    fn has(self, metric: &MetricComparison) -> bool {
        let is_decided = metric.verdict != Verdict::Inconclusive;
        match self {
            Self::All => true,
            Self::Deciding => metric.is_headline && is_decided,
            Self::Decided => is_decided,
            Self::Undecided => !is_decided,
        }
    }
}

/// Returns the number of inconclusive metrics.
pub(crate) fn undecided(comparison: &Comparison) -> usize {
    let subjects = comparison.subjects.iter();
    let metrics = subjects.flat_map(|subject| &subject.metrics);
    metrics.filter(|it| Rows::Undecided.has(it)).count()
}

/// Returns a table for each subject that has such rows, with its title. `draw` draws intervals for
/// HTML.
pub(crate) fn tables(
    comparison: &Comparison,
    rows: Rows,
    draw: impl Fn(&MetricComparison) -> Markup,
) -> Vec<(String, ReportTable)> {
    let subjects = comparison.subjects.iter();
    let tables = subjects.map(|it| (it.subject.to_string(), table(it, rows, &draw)));
    tables.filter(|(_, table)| !table.is_empty()).collect()
}

fn table(
    subject: &SubjectComparison,
    rows: Rows,
    draw: impl Fn(&MetricComparison) -> Markup,
) -> ReportTable {
    let headings = "metric|base|other|change|95 % interval|noise|n|verdict";
    let mut table = ReportTable::headed(1, headings).text_from(7);
    let metrics = subject.metrics.iter();
    for metric in metrics.filter(|metric| rows.has(metric)) {
        let percent =
            |ratio: Option<f64>| ratio.map(|ratio| format!("{:+.1}", (ratio - 1.0) * 100.0));
        let none = || format::NONE.to_owned();
        let change = percent(metric.ratio).map_or_else(none, |change| match better_side(metric) {
            Some(side) => format!("{change} %, {side} better"),
            None => format!("{change} %"),
        });
        let interval = percent(metric.ratio_low).zip(percent(metric.ratio_high));
        let interval = interval.map_or_else(none, |(low, high)| format!("[{low}, {high}]"));
        let noise = metric
            .noise_share
            .map(|share| format::number(Some(share * 100.0)));
        let class = match metric.verdict {
            Verdict::Worse => "bad",
            Verdict::Better => "ok",
            Verdict::Inconclusive => "warn",
            Verdict::Equivalent => "",
        };
        let repetitions = format!("{}+{}", metric.base_values.len(), metric.other_values.len());
        let fields: [Field; 8] = [
            Field::from(&metric.metric),
            format::number(metric.base_mean()).into(),
            format::number(metric.other_mean()).into(),
            change.into(),
            Field {
                drawing: draw(metric),
                ..Field::from(interval)
            },
            noise
                .map_or_else(none, |noise| format!("±{noise} %"))
                .into(),
            repetitions.into(),
            Field::with(class, verdict_text(metric)),
        ];
        table.row("", fields);
    }
    table
}

/// Returns the side with the better value; `None` if they are equal as printed.
fn better_side(metric: &MetricComparison) -> Option<&'static str> {
    let ratio = metric.ratio.filter(|ratio| (ratio - 1.0).abs() >= 0.0005)?;
    Some(match (ratio < 1.0) == metric.lower_is_better {
        true => "other",
        false => "base",
    })
}

/// Returns the verdict; an inconclusive verdict includes the repetitions needed, or the reason.
fn verdict_text(metric: &MetricComparison) -> String {
    let (verdict, reason) = (metric.verdict.name(), &metric.reason);
    match (metric.verdict, metric.repetitions_needed) {
        (Verdict::Inconclusive, Some(needed)) => {
            format!("{verdict}: needs about {needed} repetitions each")
        }
        (Verdict::Inconclusive, None) => format!("{verdict}: {reason}"),
        _ => verdict.to_owned(),
    }
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
            lower_is_better: true,
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
            text.contains("+20.0 %, base better") && text.contains("[+16.0, +24.0]"),
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
                let text = table(&found.subjects[0], Rows::All, no_drawing);
                let text = text.markdown_with(str::to_owned);
                let row = text.lines().nth(2).unwrap().trim_start_matches("| ");
                row.split(" | ").map(str::to_owned).collect::<Vec<_>>()
            };
            let shown = row_of(&base, &other);
            let quotient = shown_number(&shown[2]) / shown_number(&shown[1]);
            let change: f64 = shown[3].split(" %").next().unwrap().parse().unwrap();
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
        let (decided, closed) = text.split_once("<details><summary>1 inconclusive").unwrap();
        assert!(
            decided.contains("response\\_p99") && closed.contains("response\\_p50"),
            "{text}"
        );
        let columns = |row: &str| row.matches(" | ").count() + 1;
        assert!(rows.iter().all(|row| columns(row) == 8), "{text}");
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
            again: None,
        };
        let twice = FindMax {
            again: Some(Box::new(find_max.clone())),
            ..find_max.clone()
        };
        let once = render_find_max(&find_max);
        assert_eq!(render_find_max(&twice), format!("{once}\n{once}"));
        let text = once;
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].contains("1,000") && lines[1].contains("✓ yes"),
            "{text}"
        );
        assert!(
            lines[2].ends_with("✗ no       broker     too late"),
            "{text}"
        );
        assert_eq!(lines[4], "Nothing was found.");
    }
}
