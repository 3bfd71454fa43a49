//! `report.md`: the report for a pull request, a README or a terminal pager.

use std::fmt::Write as _;

use weir_stats::run::{Run, ThresholdStatus};

use crate::chart::{self, ChartFile};
use crate::columns::{self, Column, ONLY_HTML};
use crate::escape::markdown as esc;
use crate::format;
use crate::grid::rate_grid;
use crate::libraries::{self, LibraryReport};
use crate::table::ReportTable;
use crate::view::{self, Level};
use crate::{compare, cost, published, results, shared};

/// Returns the report as Markdown, for a pull request or a README.
pub fn report(run: &Run) -> String {
    let mut out = String::new();
    head(&mut out, run);
    let compared = LibraryReport::of(run);
    if let Some(compared) = &compared {
        libraries::markdown(&mut out, compared);
    }
    if compared.is_none() || !run.cells.is_empty() {
        cells(&mut out, run);
    }
    configuration(&mut out, run);
    out
}

fn cells(out: &mut String, run: &Run) {
    let (levels, files) = (view::levels(run), chart::chart_files(run));
    let is_grid = view::is_grid(run);
    findings(out, run);
    if is_grid {
        grids(out, run, &levels);
        charts(out, &files);
    }
    out.push_str("\n## Results\n\n");
    let tables = results::special_tables(run);
    if tables.is_empty() {
        results(out, run, &levels);
    }
    for (title, table) in tables {
        let _ = writeln!(out, "{title}:\n\n{}", table.markdown());
    }
    let costs = cost::table(run);
    if !costs.is_empty() {
        titled(out, "Cost by architecture", &costs);
        let _ = writeln!(out, "\n{}", cost::CAPTION);
    }
    let servers = cost::servers(run, &levels);
    if !servers.is_empty() {
        titled(out, "Servers by subject", &servers);
        let _ = writeln!(out, "\n{}", cost::servers_caption());
    }
    if !is_grid {
        charts(out, &files);
    }
    setup(out, run);
    let usage = shared::usage(run).select(2, &shared::USAGE_IN_SHORT);
    titled(out, "Resource usage by process role", &usage);
    delivery(out, run);
    reference(out, run, &levels);
}

fn titled(out: &mut String, title: &str, table: &ReportTable) {
    let _ = write!(out, "\n## {title}\n\n{}", table.markdown());
}

fn head(out: &mut String, run: &Run) {
    let (_, outcome) = view::outcome(run);
    let [title, question] = [&run.title, &run.question].map(|it| esc(it));
    let answer = esc(&view::answer(run));
    let _ = writeln!(
        out,
        "# {answer}\n\n**{outcome}, {}.** {title}: {question}\n\n{}\n",
        esc(&run.confidence.text()),
        esc(&weir_stats::answer::noise(run))
    );
    if let Some(verdict) = view::verdict(run) {
        let _ = writeln!(out, "{}\n", esc(verdict));
    }
    for it in &run.thresholds {
        let status = esc(&view::threshold_status(it));
        let status = match it.status {
            ThresholdStatus::Failed => format!("**{status}**"),
            _ => status,
        };
        let _ = writeln!(out, "- {}, {status}", esc(&view::threshold(it)));
    }
    for warning in &run.warnings {
        let _ = writeln!(out, "- warning: {}", esc(warning));
    }
    for note in &run.notes {
        let _ = writeln!(out, "- {}", esc(note));
    }
}

/// Writes comparisons, the maximum sustained load and derived results, if the run has them.
fn findings(out: &mut String, run: &Run) {
    for comparison in &run.comparisons {
        let [base, other] = [&comparison.base, &comparison.other].map(|side| esc(&side.label));
        let text = match compare::single_repetition_note(comparison) {
            Some(text) => esc(&text) + "\n",
            None => compare::comparison_markdown(comparison),
        };
        let _ = write!(out, "\n## {other} compared with {base}\n\n{text}");
    }
    for search in run.find_max.iter().flat_map(shared::searches) {
        let (summary, steps) = (esc(&search.summary), shared::steps(search).markdown());
        let _ = write!(out, "\n## Maximum sustained load\n\n{summary}\n\n{steps}");
    }
    let derived = shared::derived(run);
    if !derived.is_empty() {
        titled(out, "Derived results", &derived);
    }
}

fn grids(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    for name in view::subjects(run) {
        let Some((unit, table)) = rate_grid(&name, levels) else {
            continue;
        };
        titled(out, &format!("{}: clients by rate", esc(&name)), &table);
        let _ = writeln!(
            out,
            "\nMean response time in {} (standard deviation); ✓ sustained, ✗ not sustained.",
            unit.name()
        );
    }
}

fn charts(out: &mut String, charts: &[ChartFile]) {
    for chart in charts {
        let _ = writeln!(out, "\n![{}]({})", esc(&chart.title), chart.file);
    }
}

fn results(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    let at = |level: &Level<'_>| match level.parameters.is_empty() {
        true => format::count(level.clients),
        false => level.label(),
    };
    let table = results::table(run, levels, &columns::below(ONLY_HTML), Column::heading, at);
    let _ = write!(
        out,
        "Latency starts at the due time of a record, in {}. CPU is that of the delivering process \
         (gateway or floor, else the broker) per delivered record.\n\n{}",
        view::median_unit(levels).name(),
        table.markdown()
    );
    list(
        out,
        "Unwanted records",
        results::remarks(levels, |row| row.unwanted()),
    );
    list(
        out,
        "Not sustained",
        results::remarks(levels, |row| row.limit()),
    );
}

fn list(out: &mut String, title: &str, items: Vec<(String, String)>) {
    let items = items
        .iter()
        .map(|(name, text)| format!("- {}: {}\n", esc(name), esc(text)));
    let items: String = items.collect();
    if !items.is_empty() {
        let _ = write!(out, "\n{title}:\n\n{items}");
    }
}

fn setup(out: &mut String, run: &Run) {
    out.push_str("\n## Test setup\n\n");
    for (label, text) in view::facts(run) {
        let _ = writeln!(out, "- {label}: {}", esc(&text));
    }
}

fn delivery(out: &mut String, run: &Run) {
    titled(out, "Delivery check", &shared::delivery(run));
    let errors = shared::client_errors(run);
    if !errors.is_empty() {
        let _ = write!(out, "\n{}", errors.markdown());
    }
    for (ok, text) in shared::probes(run) {
        let verdict = if ok { "passed" } else { "**failed**" };
        let _ = writeln!(out, "\n- SDK client, {verdict}: {}", esc(&text));
    }
}

fn reference(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    let table = published::table(run, levels);
    let Some(it) = run.reference.as_ref().filter(|_| !table.is_empty()) else {
        return;
    };
    let [source, hardware, note] = [&it.source, &it.hardware, &it.note].map(|it| esc(it));
    let table = table.markdown();
    let _ = write!(
        out,
        "\n## Published results (other hardware)\n\n{source}. Measured on {hardware}. {note}\n\n\
         {table}\n{}\n",
        published::CAPTION
    );
}

fn configuration(out: &mut String, run: &Run) {
    let command = esc(&run.command_line.join(" "));
    let [started, finished] = [&run.started_utc, &run.finished_utc].map(|it| esc(it));
    let _ = writeln!(
        out,
        "\n## Configuration\n\n- Command: {command}\n- Started {started}, finished {finished}"
    );
    for (title, values) in shared::configuration(run) {
        let mut table = ReportTable::new(2, [title, ""]);
        for (name, value) in &values {
            table.row("", [*name, value.as_str()]);
        }
        let _ = write!(out, "\n{}", table.markdown());
    }
}
