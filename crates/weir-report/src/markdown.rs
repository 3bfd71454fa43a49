//! `report.md`: the report for a pull request, a README or a terminal pager.

use std::fmt::Write as _;

use weir_stats::run::{Run, RunOutcome};

use crate::chart::{self, ChartFile};
use crate::columns::{COLUMNS, ONLY_HTML};
use crate::escape::markdown as esc;
use crate::format;
use crate::grid::{GridPoint, rate_grid};
use crate::libraries::{self, LibraryReport};
use crate::table::ReportTable;
use crate::view::{self, Level, RowStatus};
use crate::{compare, cost, published, shared, sweep_table};

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
    let sweeps = sweep_table::tables(run);
    if sweeps.is_empty() {
        results(out, &levels);
    }
    for (title, table) in sweeps {
        let _ = writeln!(out, "{title}:\n\n{}", table.markdown());
    }
    let costs = cost::table(run);
    if !costs.is_empty() {
        titled(out, "Cost by architecture", &costs);
        let _ = writeln!(out, "\n{}", cost::CAPTION);
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
    let outcome = match run.outcome {
        RunOutcome::Passed => "Passed",
        RunOutcome::ThresholdFailed => "Threshold failed",
        RunOutcome::Invalid => "Invalid",
        RunOutcome::Interrupted => "Interrupted",
    };
    let [title, verdict, question] = [&run.title, &run.verdict, &run.question].map(|it| esc(it));
    let _ = writeln!(out, "# {title}\n\n**{outcome}.** {verdict}\n\n{question}\n");
    for it in &run.thresholds {
        let [limit, scope, unit] = [&it.expression, &it.scope, &it.unit].map(|it| esc(it));
        let actual = format::figure(it.actual);
        let mark = if it.passed { "passed" } else { "**failed**" };
        let _ = writeln!(out, "- {limit} ({scope}): measured {actual} {unit}, {mark}");
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
    if let Some(search) = &run.find_max {
        let (summary, steps) = (esc(&search.summary), shared::steps(search).markdown());
        let _ = write!(out, "\n## Maximum sustained load\n\n{summary}\n\n{steps}");
    }
    let derived = shared::derived(run);
    if !derived.is_empty() {
        titled(out, "Derived results", &derived);
    }
}

/// Writes clients by rate, one table per subject.
fn grids(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    for name in view::subjects(run) {
        let Some(grid) = rate_grid(&name, levels) else {
            continue;
        };
        let rates = grid.rates.iter().map(|rate| format::figure(Some(*rate)));
        let corner = "clients \\ records/s".to_owned();
        let mut table = ReportTable::new(1, [corner].into_iter().chain(rates));
        for (clients, points) in grid.rows {
            let fields = points
                .iter()
                .map(|it| it.as_ref().map_or_else(String::new, point));
            table.row("", [format::count(clients)].into_iter().chain(fields));
        }
        titled(out, &format!("{}: clients by rate", esc(&name)), &table);
        let _ = writeln!(
            out,
            "\nMean response time in {} (standard deviation); ✓ sustained, ✗ not sustained.",
            grid.unit.name()
        );
    }
}

fn point(point: &GridPoint) -> String {
    let mark = match point.is_sustained {
        Some(true) => "✓ ",
        Some(false) => "✗ ",
        None => "",
    };
    format!("{mark}{}", point.text)
}

/// Writes links to the chart files next to the report.
fn charts(out: &mut String, charts: &[ChartFile]) {
    for chart in charts {
        let _ = writeln!(out, "\n![{}]({})", esc(&chart.title), chart.file);
    }
}

fn results(out: &mut String, levels: &[Level<'_>]) {
    let unit = view::median_unit(levels);
    let _ = writeln!(
        out,
        "Latency starts at the due time of a record, in {}. CPU is that of the delivering process \
         (gateway or floor, else the broker) per delivered record.\n",
        unit.name()
    );
    let columns = || COLUMNS.iter().filter(|column| column.rank < ONLY_HTML);
    let headings = columns().map(|column| column.heading());
    let mut table = ReportTable::new(2, ["clients", "architecture"].into_iter().chain(headings));
    let rows = levels
        .iter()
        .flat_map(|level| level.rows.iter().map(move |row| (level, row)));
    let (mut unwanted, mut limits) = (String::new(), String::new());
    for (level, row) in rows {
        let at = match level.parameters.is_empty() {
            true => format::count(level.clients),
            false => level.label(),
        };
        let mut fields = vec![at, row.name.clone()];
        match &row.state {
            RowStatus::Skipped(reason) => fields.push(format!("skipped: {reason}")),
            RowStatus::Invalid(reasons) => fields.push(format!("invalid: {}", reasons.join("; "))),
            RowStatus::Valid => fields.extend(columns().map(|column| (column.show)(row, unit))),
        }
        table.row("", fields);
        let (name, label) = (esc(&row.name), esc(&level.label()));
        for (list, text) in [(&mut unwanted, row.unwanted()), (&mut limits, row.limit())] {
            if let Some(text) = text {
                let _ = writeln!(list, "- {name} at {label}: {}", esc(&text));
            }
        }
    }
    out.push_str(&table.markdown());
    for (title, list) in [("Unwanted records", unwanted), ("Not sustained", limits)] {
        if !list.is_empty() {
            let _ = write!(out, "\n{title}:\n\n{list}");
        }
    }
}

fn setup(out: &mut String, run: &Run) {
    out.push_str("\n## Test setup\n\n");
    for (label, text) in view::facts(run) {
        let _ = writeln!(out, "- {label}: {}", esc(&text));
    }
    let [machine, os, kernel] =
        [&view::machine(run), &run.machine.os, &run.machine.kernel].map(|it| esc(it));
    let _ = writeln!(out, "- Machine: {machine}, {os}, kernel {kernel}");
    for place in &run.placement {
        let plural = if place.processes == 1 {
            "process"
        } else {
            "processes"
        };
        let comma = if place.description.is_empty() {
            ""
        } else {
            ", "
        };
        let [role, host, text] = [&place.role, &place.host, &place.description].map(|it| esc(it));
        let _ = writeln!(
            out,
            "- {role}: {} {plural} on {host}{comma}{text}",
            place.processes
        );
    }
}

fn delivery(out: &mut String, run: &Run) {
    titled(out, "Delivery check", &shared::delivery(run));
    for cell in view::cells(run) {
        let id = esc(&cell.id());
        for (text, count) in cell.delivery.iter().flat_map(|delivery| &delivery.errors) {
            let _ = writeln!(out, "\n- {id}: {count} × {}", esc(text));
        }
        if let Some(it) = &cell.probe {
            let verdict = if it.ok { "passed" } else { "**failed**" };
            let [updates, lost, duplicated] =
                [it.updates, it.lost, it.duplicated].map(format::count);
            let (sdk, version) = (esc(&it.sdk), esc(&it.version));
            let _ = writeln!(
                out,
                "\n- {id}: SDK client {sdk} {version}: {updates} updates, {lost} lost, \
                 {duplicated} duplicated: {verdict}"
            );
        }
    }
}

fn reference(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    let Some(it) = &run.reference else { return };
    let [source, hardware, note] = [&it.source, &it.hardware, &it.note].map(|it| esc(it));
    let table = published::table(run, levels).markdown();
    let _ = write!(
        out,
        "\n## Published results (other hardware)\n\n{source}. Measured on {hardware}. {note}\n\n\
         {table}"
    );
    if view::is_grid(run) {
        let _ = writeln!(out, "\n{}", published::CAPTION);
    }
}

fn configuration(out: &mut String, run: &Run) {
    let command = esc(&run.command_line.join(" "));
    let [started, finished, weir] =
        [&run.started_utc, &run.finished_utc, &run.weir_version].map(|it| esc(it));
    let _ = writeln!(
        out,
        "\n## Configuration\n\n- Command: {command}\n- Started {started}, finished {finished}\n\
         - weir {weir}"
    );
    for (name, version) in &run.versions {
        let _ = writeln!(out, "- {} {}", esc(name), esc(version));
    }
    for group in &run.settings {
        let mut table = ReportTable::new(2, [group.part.as_str(), ""]);
        for it in &group.settings {
            table.row("", [&it.name, &it.value]);
        }
        let _ = write!(out, "\n{}", table.markdown());
    }
    if !run.files.is_empty() {
        let mut table = ReportTable::new(2, ["file", "content"]);
        for file in &run.files {
            table.row("", [&file.path, &file.description]);
        }
        let _ = write!(out, "\n{}", table.markdown());
    }
}
