//! Proxy overhead: all subjects of a run side by side, as Markdown.

use weir_stats::interval;
use weir_stats::run::{Cell, Repetitions, Run};

use crate::format::{self, NONE};
use crate::table::ReportTable;
use crate::view;

/// File name of the table in a run directory.
pub const OVERHEAD_FILE: &str = "overhead.md";

/// Returns a page with the tables if the run measures proxy overhead, `None` otherwise.
#[must_use]
pub fn overhead_table(run: &Run) -> Option<String> {
    let tables = tables(run);
    (!tables.is_empty()).then(|| page(run, &tables))
}

fn page(run: &Run, tables: &[(String, ReportTable)]) -> String {
    let mut text = format!("# {}\n\n{}\n", plain(&run.title), plain(&run.verdict));
    for warning in &run.warnings {
        text.push_str(&format!("\nWarning: {}\n", plain(warning)));
    }
    for (title, table) in tables {
        section(&mut text, title, "", table);
    }
    limits(&mut text, run);
    published(&mut text, run);
    text
}

/// Architecture (`produce` or `consume`), and the rate in records/s unless it is unlimited.
type Load<'a> = (&'a str, Option<f64>);

/// Returns `true` if the run measures proxy overhead.
pub(crate) fn is_measured(run: &Run) -> bool {
    let is_overhead = |cell: &Cell| {
        let workload = cell.architecture.trim_start_matches("kafka-");
        matches!(workload, "produce" | "consume") && cell.variant.is_some()
    };
    run.cells.iter().any(is_overhead)
}

/// Returns one table per load with its title: means over the repetitions and their ratios. Returns
/// none if the run does not measure proxy overhead.
pub(crate) fn tables(run: &Run) -> Vec<(String, ReportTable)> {
    if !is_measured(run) {
        return Vec::new();
    }
    let groups = Repetitions::group(&run.cells);
    let base = run.base_variant().unwrap_or_default();
    let headings = format!(
        "subject|records/s|× {} [95 %]|proxy CPU s/GB|mean µs|p99 µs|p50 µs|p95 µs|p99.9 µs|\
         proxy RSS MiB|min to max records/s",
        plain(base)
    );
    let mut tables: Vec<(Load<'_>, ReportTable)> = Vec::new();
    for group in &groups {
        let load = load(group);
        if !tables.iter().any(|(known, _)| *known == load) {
            tables.push((load, ReportTable::headed(1, &headings)));
        }
        let same = tables.iter_mut().find(|(known, _)| *known == load);
        if let (Some((_, table)), Some(row)) = (same, row(&groups, group, base)) {
            table.row("", row);
        }
    }
    tables.sort_by_key(|((architecture, rate), _)| (*architecture, rate.is_some()));
    let tables = tables.into_iter();
    tables.map(|(load, table)| (title(load), table)).collect()
}

fn title((architecture, rate): Load<'_>) -> String {
    let load = match (rate, architecture.ends_with("consume")) {
        (Some(rate), _) => format!("{} records/s", whole(rate)),
        (None, true) => "all written records".to_owned(),
        (None, false) => "unthrottled".to_owned(),
    };
    format!("{}, {load}", plain(architecture))
}

fn load<'a>(group: &Repetitions<'a>) -> Load<'a> {
    let cell = group.cells[0];
    (&cell.architecture, cell.parameters.get(RATE).copied())
}

/// Returns the values of the repetitions that are also in `others`.
fn in_both(values: &[(u64, f64)], others: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let is_shared = |it: &&(u64, f64)| others.iter().any(|other| other.0 == it.0);
    values.iter().filter(is_shared).copied().collect()
}

/// Returns the table row of one subject, or `None` without results.
fn row(groups: &[Repetitions<'_>], own: &Repetitions<'_>, base: &str) -> Option<[String; 11]> {
    let by_repetition = |group: &Repetitions<'_>| -> Vec<(u64, f64)> {
        let rate = |it: &Cell| Some((it.repetition, *it.figures.get("records_per_s")?));
        group.valid().filter_map(rate).collect()
    };
    let subject = own.cells[0].variant.as_deref().unwrap_or_default();
    let is_base = |it: &&Repetitions<'_>| {
        let (cell, own) = (it.cells[0], own.cells[0]);
        let is_same_load =
            cell.architecture == own.architecture && cell.parameters == own.parameters;
        is_same_load && cell.variant.as_deref() == Some(base)
    };
    let rates = by_repetition(own);
    let bases = groups
        .iter()
        .find(is_base)
        .map(by_repetition)
        .unwrap_or_default();
    let (same, same_base) = (in_both(&rates, &bases), in_both(&bases, &rates));
    let ratio = match same.len() < 2 {
        true => interval::repetition_ratio(&rates, &bases),
        // The machine may be slower in repetitions that only one subject has.
        false => interval::repetition_ratio(&same, &same_base),
    };
    let ratio = ratio.filter(|_| subject != base);
    let ratio = ratio.map(|it| match it.bounds {
        Some((low, high)) => format!("{:.3} [{low:.3}, {high:.3}]", it.value),
        None => format!("{:.3}", it.value),
    });
    let rates = rates.iter().map(|(_, per_s)| *per_s);
    let low = rates.clone().fold(f64::INFINITY, f64::min);
    let high = rates.fold(0.0, f64::max);
    let mean = |name: &str| own.mean(|it| it.figures.get(name).copied());
    let us = |name: &str| mean(name).map_or_else(|| NONE.to_owned(), |ms| whole(ms * 1e3));
    let per_s = whole(mean("records_per_s")?);
    // A narrow terminal omits columns from the end.
    Some([
        plain(subject),
        per_s,
        ratio.unwrap_or_else(|| NONE.to_owned()),
        decimal(mean("cpu_s_per_gb"), 2),
        us("latency_mean_ms"),
        us("latency_p99_ms"),
        us("latency_p50_ms"),
        us("latency_p95_ms"),
        us("latency_p999_ms"),
        decimal(mean("proxy_rss_mib"), 1),
        format!("{} to {}", whole(low), whole(high)),
    ])
}

fn whole(value: f64) -> String {
    format::count(value.round() as u64)
}

fn decimal(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.digits$}"))
}

fn section(text: &mut String, title: &str, note: &str, table: &ReportTable) {
    // The texts have been passed through `plain`.
    let table = table.markdown_with(str::to_owned);
    text.push_str(&format!("\n## {title}\n\n{note}{table}"));
}

fn limits(text: &mut String, run: &Run) {
    let mut table = ReportTable::headed(4, "limit|scope|measured|status");
    for it in &run.thresholds {
        let limit = plain(&it.expression.replace("<=", "≤").replace(">=", "≥"));
        let actual = format!("{} {}", decimal(it.actual, 3), plain(&it.unit));
        let status = view::threshold_status(it);
        table.row("", [&limit, plain(&it.scope).as_str(), &actual, &status]);
    }
    if !table.is_empty() {
        section(text, "Limits", "", &table);
    }
}

fn published(text: &mut String, run: &Run) {
    let Some(it) = &run.reference else { return };
    let mut table = ReportTable::headed(3, "series|Mbit/s|mean ms");
    for row in &it.rows {
        let rate = row.throughput_bit_per_s.unwrap_or(0) as f64 / 1e6;
        let mean = decimal(row.latency_mean_ms.map(|ms| ms as f64), 0);
        table.row("", [plain(&row.series), format!("{rate:.1}"), mean]);
    }
    let [source, hardware, note] = [&it.source, &it.hardware, &it.note].map(|it| plain(it));
    let note = format!("{source} ({hardware}): {note}.\n\n");
    section(text, "Published elsewhere", &note, &table);
}

/// Removes Markdown and HTML syntax from the untrusted text of a run file, so that it cannot end a
/// table cell, mention a user, or start a link or element.
fn plain(text: &str) -> String {
    let replace = |c: char| match c {
        '|' | '@' | '<' | '>' | '[' | ']' | '`' | '\n' | '\r' | '!' => ' ',
        other => other,
    };
    text.chars().take(TEXT_CHARS_MAX).map(replace).collect()
}

const RATE: &str = "rate_per_s";
const TEXT_CHARS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxies;
    use weir_stats::run::{ThresholdResult, ThresholdStatus};

    fn other_run() -> Run {
        let text = r#"{"schema": "weir.run/3", "plan": "keyed", "title": "t", "question": "q",
            "started_utc": "", "finished_utc": "", "command_line": [],
            "weir_version": "0", "outcome": "complete", "verdict": "v",
            "confidence": {"level": "conclusive", "reasons": []},
            "machine": {"cpu_model": "", "cpu_cores": 1, "memory_bytes": 1, "kernel": "", "os": ""},
            "clock": {"mode": "same_host", "bound_ns": 0}}"#;
        Run::from_json(text).unwrap()
    }

    fn cell(variant: &str, repetition: u64, rate: Option<f64>, per_s: f64) -> Cell {
        let mut cell = Cell {
            architecture: "produce".to_owned(),
            variant: Some(variant.to_owned()),
            clients: 1,
            repetition,
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
        for (repetition, drift) in [(1, 1.0), (2, 0.8), (3, 1.1)] {
            run.cells
                .push(cell("direct", repetition, None, 100_000.0 * drift));
            let mut proxy = cell("mine", repetition, None, 85_500.0 * drift);
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
            status: ThresholdStatus::Passed,
            reason: None,
        });
        let table = overhead_table(&run).unwrap();
        let limit =
            "| mine.cpu_s_per_gb / direct.cpu_s_per_gb ≤ 1.15 | produce  all | 1.000 x | passed |";
        assert!(table.contains(limit), "{table}");
        assert!(
            table.contains("\nv\n\nWarning: other  had  load\n"),
            "{table}"
        );
        assert!(table.contains("| × direct [95 %] |"), "{table}");
        assert!(table.contains("## produce, unthrottled"), "{table}");
        assert!(table.contains("| direct | 95,828 | – | – |"), "{table}");
        let mine = "| mine | 81,933 | 0.855 [0.855, 0.855] | 2.20 | – | – | – | – | – | 9.0 | \
                    68,400 to 94,050 |";
        assert!(table.contains(mine), "{table}");
        assert!(table.contains("## produce, 20,000 records/s"), "{table}");
        assert!(
            table.contains("| direct | 20,000 | – | – | – | 1,234 | – | – | – | – |"),
            "{table}"
        );
    }

    #[test]
    fn repetitions_of_one_subject_do_not_change_ratios() {
        let mut run = other_run();
        run.cells.clear();
        for repetition in 1..=4 {
            let drift = if repetition > 2 { 0.5 } else { 1.0 };
            run.cells
                .push(cell("mine", repetition, None, 85_500.0 * drift));
            if repetition <= 2 {
                run.cells.push(cell("direct", repetition, None, 100_000.0));
            }
        }
        let table = overhead_table(&run).unwrap();
        assert!(table.contains("| 0.855 [0.855, 0.855] |"), "{table}");
        assert!(table.contains("42,750 to 85,500"), "{table}");
        let subjects = proxies::at_maximum_rate(&run);
        assert!(subjects.iter().all(|it| it.cells.len() == 2));
        assert!(proxies::has_other_rounds(&run));
    }

    #[test]
    fn names_lose_markdown_syntax() {
        assert_eq!(plain("a|b @all <b>[x](y)\n"), "a b  all  b  x (y) ");
    }
}
