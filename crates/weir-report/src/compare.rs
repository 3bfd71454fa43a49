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
        let _ = writeln!(out, "\n{}", terminal(&subject.subject.to_string()));
        out.push_str(&table(subject, all, no_drawing).text("  ", usize::MAX, color));
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
    for subject in &comparison.subjects {
        let title = markdown(&subject.subject.to_string());
        let table = table(subject, true, no_drawing);
        let _ = write!(out, "\n#### {title}\n\n{}", table.markdown());
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
    let steps = shared::steps(find_max).select(4, &[0, 2, 4, 5]);
    format!(
        "{}\n{}\n",
        steps.text("  ", usize::MAX, false),
        terminal(&find_max.summary)
    )
}

fn no_drawing(_: &MetricComparison) -> Markup {
    Markup::default()
}

/// Returns a row per metric; `draw` draws its interval for HTML. `all` includes metrics that do not
/// affect the result.
pub(crate) fn table(
    subject: &SubjectComparison,
    all: bool,
    draw: impl Fn(&MetricComparison) -> Markup,
) -> ReportTable {
    let headings = "metric|base|other|change|95 % interval|noise|n|verdict";
    let mut table = ReportTable::headed(1, headings).text_from(7);
    let metrics = subject.metrics.iter();
    for metric in metrics.filter(|metric| all || metric.is_headline) {
        let percent =
            |ratio: Option<f64>| ratio.map(|ratio| format!("{:+.1}", (ratio - 1.0) * 100.0));
        let none = || format::NONE.to_owned();
        let change = percent(metric.ratio).map_or_else(none, |change| format!("{change} %"));
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

/// Returns the verdict; an inconclusive verdict includes the reason and the repetitions needed.
fn verdict_text(metric: &MetricComparison) -> String {
    let (verdict, reason) = (metric.verdict.name(), &metric.reason);
    match (metric.verdict, metric.repetitions_needed) {
        (Verdict::Inconclusive, Some(needed)) => {
            format!("{verdict}: {reason}; needs about {needed} repetitions each")
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
                let text = table(&found.subjects[0], true, no_drawing).markdown_with(str::to_owned);
                let row = text.lines().nth(2).unwrap().trim_start_matches("| ");
                row.split(" | ").map(str::to_owned).collect::<Vec<_>>()
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
        };
        let text = render_find_max(&find_max);
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
