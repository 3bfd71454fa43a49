//! Proxy overhead: all subjects of a run side by side, as Markdown.

use std::fmt::Write as _;

use weir_stats::interval::{self, Estimate};
use weir_stats::run::{Cell, Repetitions, Run};

/// File name of the table in a run directory.
pub const OVERHEAD_FILE: &str = "overhead.md";

/// Returns the table if the run measures proxy overhead, `None` otherwise.
#[must_use]
pub fn overhead_table(run: &Run) -> Option<String> {
    let is_one = |cell: &Cell| {
        let side = cell.architecture.trim_start_matches("kafka-");
        matches!(side, "produce" | "consume") && cell.variant.is_some()
    };
    run.cells.iter().any(is_one).then(|| table(run))
}

/// A row of the table: one subject under one load, over all repetitions.
struct OverheadRow {
    side: String,
    rate: Option<f64>,
    subject: String,
    /// Mean, minimum and maximum.
    per_s: (f64, f64, f64),
    ratio: Option<Estimate>,
    latencies_ms: [Option<f64>; 5],
    cost: Option<f64>,
    rss: Option<f64>,
}

fn rows(run: &Run) -> Vec<OverheadRow> {
    let mut rows: Vec<OverheadRow> = Vec::new();
    for cell in &run.cells {
        let (rate, subject) = (cell.parameters.get(RATE).copied(), cell.variant.clone());
        let subject = subject.unwrap_or_default();
        let is_known = rows
            .iter()
            .any(|row| (&row.side, row.rate, &row.subject) == (&cell.architecture, rate, &subject));
        if !is_known {
            rows.extend(row(run, cell, rate, subject));
        }
    }
    rows.sort_by(|a, b| (&a.side, a.rate.is_some()).cmp(&(&b.side, b.rate.is_some())));
    rows
}

fn row(run: &Run, cell: &Cell, rate: Option<f64>, subject: String) -> Option<OverheadRow> {
    let same = |variant: Option<&str>| Repetitions {
        cells: run
            .cells
            .iter()
            .filter(|it| {
                it.architecture == cell.architecture
                    && it.variant.as_deref() == variant
                    && it.parameters == cell.parameters
            })
            .collect(),
    };
    let own = same(cell.variant.as_deref());
    let mean = |name: &str| own.mean(|it| it.figures.get(name).copied());
    let by_repetition = |side: &Repetitions<'_>| -> Vec<(u64, f64)> {
        let rate = |it: &Cell| it.figures.get("records_per_s").copied();
        let valid = side.valid();
        valid
            .filter_map(|it| Some((it.repetition, rate(it)?)))
            .collect()
    };
    let per_s = by_repetition(&own);
    let base = run.base_variant()?;
    let ratio = interval::repetition_ratio(&per_s, &by_repetition(&same(Some(base))));
    let per_s = per_s.iter().map(|(_, per_s)| *per_s);
    Some(OverheadRow {
        side: cell.architecture.clone(),
        rate,
        per_s: (
            mean("records_per_s")?,
            per_s.clone().fold(f64::INFINITY, f64::min),
            per_s.fold(0.0, f64::max),
        ),
        ratio: ratio.filter(|_| subject != base),
        latencies_ms: [
            mean("latency_mean_ms"),
            mean("latency_p50_ms"),
            mean("latency_p95_ms"),
            mean("latency_p99_ms"),
            mean("latency_p999_ms"),
        ],
        cost: mean("cpu_s_per_gb"),
        rss: mean("proxy_rss_mib"),
        subject,
    })
}

/// Returns one table per load: means over the repetitions and their ratios.
fn table(run: &Run) -> String {
    let mut text = format!("# {}\n\n{}\n", plain(&run.title), plain(&run.verdict));
    for warning in &run.warnings {
        let _ = write!(text, "\nWarning: {}\n", plain(warning));
    }
    let mut last = None;
    for row in rows(run) {
        let load = (row.side.clone(), row.rate.map(|rate| rate as u64));
        if last.as_ref() != Some(&load) {
            heading(&mut text, &load, run.base_variant().unwrap_or_default());
            last = Some(load);
        }
        let (mean, low, high) = row.per_s;
        let ratio = row.ratio.map_or_else(|| "-".to_owned(), interval_text);
        let _ = write!(
            text,
            "| {} | {mean:.0} ({low:.0}..{high:.0}) | {ratio}",
            plain(&row.subject)
        );
        for value in row.latencies_ms {
            let us = value.map_or_else(|| "-".to_owned(), |ms| format!("{:.0}", ms * 1e3));
            let _ = write!(text, " | {us}");
        }
        let figure = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let _ = writeln!(
            text,
            " | {} | {} |",
            figure(row.cost, 2),
            figure(row.rss, 1)
        );
    }
    limits(&mut text, run);
    published(&mut text, run);
    text
}

fn heading(text: &mut String, (side, rate): &(String, Option<u64>), base: &str) {
    let load = match (rate, side.ends_with("consume")) {
        (Some(rate), _) => format!("{rate} records/s"),
        (None, true) => "all written records".to_owned(),
        (None, false) => "unthrottled".to_owned(),
    };
    let _ = writeln!(
        text,
        "\n## {}, {load}\n\n| subject | records/s (min..max) | ratio to {}, 95 % interval | mean \
         us | p50 us | p95 us | p99 us | p99.9 us | proxy CPU s/GB | proxy RSS MiB |\n\
         |---|---|---|---|---|---|---|---|---|---|",
        plain(side),
        plain(base)
    );
}

fn interval_text(estimate: Estimate) -> String {
    match estimate.bounds {
        Some((low, high)) => format!("{:.3} [{low:.3}, {high:.3}]", estimate.value),
        None => format!("{:.3}", estimate.value),
    }
}

fn limits(text: &mut String, run: &Run) {
    if run.thresholds.is_empty() {
        return;
    }
    text.push_str("\n## Limits\n\n| limit | scope | measured | met |\n|---|---|---|---|\n");
    for it in &run.thresholds {
        let actual = it
            .actual
            .map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let held = if it.passed { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {} | {} | {actual} {} | {held} |",
            plain(&it.expression.replace("<=", "≤").replace(">=", "≥")),
            plain(&it.scope),
            plain(&it.unit)
        );
    }
}

fn published(text: &mut String, run: &Run) {
    let Some(reference) = &run.reference else {
        return;
    };
    let _ = write!(
        text,
        "\n## Published elsewhere\n\n{} ({}): {}.\n\n| series | Mbit/s | mean ms \
         |\n|---|---|---|\n",
        plain(&reference.source),
        plain(&reference.hardware),
        plain(&reference.note)
    );
    for row in &reference.rows {
        let rate = row.throughput_bit_per_s.unwrap_or(0) as f64 / 1e6;
        let mean = row
            .latency_mean_ms
            .map_or_else(|| "-".to_owned(), |ms| ms.to_string());
        let _ = writeln!(text, "| {} | {rate:.1} | {mean} |", plain(&row.series));
    }
}

/// Removes Markdown and HTML syntax from text of a run file, which is untrusted: no table cell
/// ends, no user is mentioned, no link or element starts.
fn plain(text: &str) -> String {
    let mark = |c: char| match c {
        '|' | '@' | '<' | '>' | '[' | ']' | '`' | '\n' | '\r' | '!' => ' ',
        other => other,
    };
    text.chars().take(TEXT_CHARS_MAX).map(mark).collect()
}

const RATE: &str = "rate_per_s";
const TEXT_CHARS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stats::run::ThresholdResult;

    fn other_run() -> Run {
        let text = r#"{"schema": "weir.run/2", "plan": "keyed", "title": "t", "question": "q",
            "started_utc": "", "finished_utc": "", "command_line": [],
            "weir_version": "0", "outcome": "passed", "verdict": "v",
            "machine": {"cpu_model": "", "cpu_cores": 1, "memory_bytes": 1, "kernel": "", "os": ""},
            "clock": {"mode": "same_host", "bound_ns": 0}}"#;
        Run::from_json(text).unwrap()
    }

    fn cell(variant: &str, round: u64, rate: Option<f64>, per_s: f64) -> Cell {
        let mut cell = Cell {
            architecture: "produce".to_owned(),
            variant: Some(variant.to_owned()),
            clients: 1,
            repetition: round,
            ..Cell::default()
        };
        cell.parameters
            .extend(rate.map(|rate| (RATE.to_owned(), rate)));
        cell.figures.insert("records_per_s".to_owned(), per_s);
        cell
    }

    #[test]
    fn each_subject_has_a_row_and_ratio() {
        let mut run = other_run();
        assert_eq!(overhead_table(&run), None);
        run.cells.clear();
        for (round, drift) in [(1, 1.0), (2, 0.8), (3, 1.1)] {
            run.cells
                .push(cell("direct", round, None, 100_000.0 * drift));
            let mut proxy = cell("mine", round, None, 85_500.0 * drift);
            proxy.figures.insert("cpu_s_per_gb".to_owned(), 2.2);
            proxy.figures.insert("proxy_rss_mib".to_owned(), 9.0);
            run.cells.push(proxy);
        }
        let mut paced = cell("direct", 1, Some(20_000.0), 20_000.0);
        paced.figures.insert("latency_p99_ms".to_owned(), 1.234);
        run.cells.push(paced);
        run.warnings = vec!["other [had] load".to_owned()];
        run.thresholds.push(ThresholdResult {
            expression: "mine.cpu_s_per_gb / direct.cpu_s_per_gb <= 1.15".to_owned(),
            scope: "produce @all".to_owned(),
            actual: Some(1.0),
            limit: 1.15,
            unit: "x".to_owned(),
            passed: true,
        });
        let table = overhead_table(&run).unwrap();
        let limit =
            "| mine.cpu_s_per_gb / direct.cpu_s_per_gb ≤ 1.15 | produce  all | 1.000 x | yes |";
        assert!(table.contains(limit), "{table}");
        assert!(
            table.contains("\nv\n\nWarning: other  had  load\n"),
            "{table}"
        );
        assert!(
            table.contains("| ratio to direct, 95 % interval |"),
            "{table}"
        );
        assert!(table.contains("## produce, unthrottled"), "{table}");
        assert!(
            table.contains("| direct | 95828 (80000..110000) | - | -"),
            "{table}"
        );
        let mine = "| mine | 81933 (68400..94050) | 0.855 [0.855, 0.855] | - | - | - | - | - | \
                    2.20 | 9.0 |";
        assert!(table.contains(mine), "{table}");
        assert!(table.contains("## produce, 20000 records/s"), "{table}");
        assert!(
            table.contains("| - | - | - | 1234 | - | - | - |"),
            "{table}"
        );
    }

    #[test]
    fn names_lose_markdown_syntax() {
        assert_eq!(plain("a|b @all <b>[x](y)\n"), "a b  all  b  x (y) ");
    }
}
