//! `report.md`: the report for a pull request, a README or a terminal pager.

mod findings;

use std::fmt::Write as _;

use weir_stats::run::{ReferenceFigures, Run, RunOutcome};

use crate::chart;
use crate::escape::markdown as esc;
use crate::format::{self, TimeUnit};
use crate::libraries::{self, LibraryReport};
use crate::published::{self, CAPTION};
use crate::view::{self, Level, RowStatus, SubjectRow};

/// Returns the whole document.
pub(crate) fn report(run: &Run) -> String {
    let mut out = String::new();
    head(&mut out, run);
    let compared = LibraryReport::of(run);
    if let Some(compared) = &compared {
        libraries::markdown(&mut out, compared);
    }
    if compared.is_some() && run.cells.is_empty() {
        configuration(&mut out, run);
        return out;
    }
    findings::answers(&mut out, run);
    let (levels, charts) = (view::levels(run), chart::chart_files(run));
    let is_grid = view::is_grid(run);
    if is_grid {
        findings::grids(&mut out, run, &levels);
        findings::charts(&mut out, &charts);
    }
    out.push_str("\n## Results\n\n");
    if !findings::sweeps(&mut out, run) {
        results(&mut out, run);
    }
    findings::decision(&mut out, run);
    if !is_grid {
        findings::charts(&mut out, &charts);
    }
    out.push_str("\n## Test setup\n\n");
    for (label, text) in view::facts(run) {
        let _ = writeln!(out, "- {label}: {}", esc(&text));
    }
    placement(&mut out, run);
    costs(&mut out, run);
    delivery(&mut out, run);
    reference(&mut out, run);
    configuration(&mut out, run);
    out
}

fn head(out: &mut String, run: &Run) {
    let outcome = match run.outcome {
        RunOutcome::Passed => "Passed",
        RunOutcome::ThresholdFailed => "Threshold failed",
        RunOutcome::Invalid => "Invalid",
        RunOutcome::Interrupted => "Interrupted",
    };
    let _ = writeln!(out, "# {}\n", esc(&run.title));
    let _ = writeln!(out, "**{outcome}.** {}\n", esc(&run.verdict));
    let _ = writeln!(out, "{}\n", esc(&run.question));
    for threshold in &run.thresholds {
        let mark = if threshold.passed {
            "passed"
        } else {
            "**failed**"
        };
        let _ = writeln!(
            out,
            "- {} ({}): measured {} {}, {mark}",
            esc(&threshold.expression),
            esc(&threshold.scope),
            format::figure(threshold.actual),
            esc(&threshold.unit)
        );
    }
    for warning in &run.warnings {
        let _ = writeln!(out, "- warning: {}", esc(warning));
    }
    for note in &run.notes {
        let _ = writeln!(out, "- {}", esc(note));
    }
}

fn results(out: &mut String, run: &Run) {
    let levels = view::levels(run);
    let p50s_us = levels
        .iter()
        .flat_map(Level::valid)
        .filter_map(|row| row.figures.p50_us);
    let unit = TimeUnit::for_values_us(p50s_us);
    let _ = writeln!(
        out,
        "Latency starts at the due time of a record, in {}. CPU is that of the delivering process \
         (gateway or floor, else the broker) per delivered record.\n",
        unit.name()
    );
    let headings = [
        "clients",
        "architecture",
        "mean",
        "sd",
        "p50",
        "p99",
        "p99.9",
        "max",
        "delivered/s",
        "Mbit/s",
        "CPU µs/rec",
        "× floor",
        "kB/client",
        "lost",
        "dup",
        "reord",
        "confl",
    ];
    let _ = writeln!(out, "| {} |", headings.join(" | "));
    let _ = writeln!(out, "|--:|---|{}", "--:|".repeat(headings.len() - 2));
    for level in &levels {
        for row in &level.rows {
            result_row(out, level, row, unit, headings.len());
        }
    }
    let rows = || {
        levels
            .iter()
            .flat_map(|level| level.rows.iter().map(move |row| (level, row)))
    };
    let mut unwanted = rows()
        .filter_map(|(level, row)| Some((level, row, row.unwanted()?)))
        .peekable();
    if unwanted.peek().is_some() {
        out.push_str("\nUnwanted records:\n\n");
    }
    for (level, row, text) in unwanted {
        let (name, label) = (esc(&row.name), esc(&level.label()));
        let _ = writeln!(out, "- {name} at {label}: {}", esc(&text));
    }
    let mut limits = rows()
        .filter_map(|(level, row)| Some((level, row, row.limit()?)))
        .peekable();
    if limits.peek().is_some() {
        out.push_str("\nNot sustained:\n\n");
    }
    for (level, row, limit) in limits {
        let (name, label) = (esc(&row.name), esc(&level.label()));
        let _ = writeln!(out, "- {name} at {label}: {}", esc(&limit));
    }
}

fn result_row(
    out: &mut String,
    level: &Level<'_>,
    row: &SubjectRow<'_>,
    unit: TimeUnit,
    columns: usize,
) {
    let at = match level.parameters.is_empty() {
        true => format::count(level.clients),
        false => esc(&level.label()),
    };
    let mut fields = vec![at, esc(&row.name)];
    match &row.state {
        RowStatus::Skipped(reason) => fields.push(format!("skipped: {}", esc(reason))),
        RowStatus::Invalid(reasons) => {
            fields.push(format!("invalid: {}", esc(&reasons.join("; "))))
        }
        RowStatus::Valid => {
            let figures = &row.figures;
            let times = [
                figures.mean_us,
                figures.stddev_us,
                figures.p50_us,
                figures.p99_us,
                figures.p999_us,
                figures.max_us,
            ];
            fields.extend(times.map(|value_us| unit.show(value_us)));
            fields.push(format::number(figures.delivered_per_s));
            fields.push(format::number(figures.mbit_per_s));
            fields.push(format::number(figures.cpu_us_delivering));
            fields.push(format::factor(row.cpu_ratio.map(|ratio| ratio.value)));
            fields.push(format::kilobytes(figures.memory_per_client_bytes));
            let counts = [
                figures.lost,
                figures.duplicated,
                figures.reordered,
                figures.conflated,
            ];
            fields.extend(counts.map(format::maybe_count));
        }
    }
    fields.resize(columns, String::new());
    let _ = writeln!(out, "| {} |", fields.join(" | "));
}

fn placement(out: &mut String, run: &Run) {
    let machine = &run.machine;
    let _ = writeln!(
        out,
        "- Machine: {}, {} cores, {}, {}, kernel {}",
        esc(&machine.cpu_model),
        machine.cpu_cores,
        format::bytes(machine.memory_bytes as f64),
        esc(&machine.os),
        esc(&machine.kernel)
    );
    for place in &run.placement {
        let plural = if place.processes == 1 {
            "process"
        } else {
            "processes"
        };
        let _ = write!(
            out,
            "- {}: {} {plural} on ",
            esc(&place.role),
            place.processes
        );
        let _ = write!(out, "{}", esc(&place.host));
        if !place.description.is_empty() {
            let _ = write!(out, ", {}", esc(&place.description));
        }
        out.push('\n');
    }
}

fn costs(out: &mut String, run: &Run) {
    out.push_str("\n## Resource usage by process role\n\n");
    out.push_str("| cell | role | cores | CPU µs/rec | max MB | kB/client | threads |\n");
    out.push_str("|---|---|--:|--:|--:|--:|--:|\n");
    for cell in view::cells(run) {
        for usage in &cell.roles {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                esc(&cell.id()),
                esc(&usage.role),
                format::number(usage.cpu_cores_mean),
                format::number(usage.cpu_us_per_delivered),
                format::megabytes(usage.rss_max_bytes),
                format::kilobytes(usage.user_memory_per_client_bytes),
                format::maybe_count(usage.threads_max)
            );
        }
    }
}

fn delivery(out: &mut String, run: &Run) {
    out.push_str("\n## Delivery check\n\n");
    out.push_str(
        "| cell | expected | delivered | lost | dup | reord | conflated | unchecked | disconnects \
         |\n",
    );
    out.push_str("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for cell in view::cells(run) {
        let Some(delivery) = &cell.delivery else {
            continue;
        };
        let _ = writeln!(
            out,
            "| {} | {} |",
            esc(&cell.id()),
            view::delivery_counts(delivery)
                .map(format::count)
                .join(" | ")
        );
    }
    for cell in view::cells(run) {
        for (text, count) in cell.delivery.iter().flat_map(|delivery| &delivery.errors) {
            let _ = writeln!(out, "\n- {}: {count} × {}", esc(&cell.id()), esc(text));
        }
        if let Some(probe) = &cell.probe {
            let verdict = if probe.ok { "passed" } else { "**failed**" };
            let _ = writeln!(
                out,
                "\n- {}: SDK client {} {}: {} updates, {} lost, {} duplicated: {verdict}",
                esc(&cell.id()),
                esc(&probe.sdk),
                esc(&probe.version),
                format::count(probe.updates),
                format::count(probe.lost),
                format::count(probe.duplicated)
            );
        }
    }
}

fn reference(out: &mut String, run: &Run) {
    let Some(reference) = &run.reference else {
        return;
    };
    let _ = writeln!(out, "\n## Published results (other hardware)\n");
    let _ = writeln!(
        out,
        "{}. Measured on {}. {}\n",
        esc(&reference.source),
        esc(&reference.hardware),
        esc(&reference.note)
    );
    if view::is_grid(run) {
        return reference_points(out, run, reference);
    }
    let _ = writeln!(out, "| {} |", view::PUBLISHED_HEADINGS.join(" | "));
    let _ = writeln!(out, "|--:|---|{}", "--:|".repeat(6));
    for fields in view::published(run) {
        let _ = writeln!(out, "| {} |", fields.map(|field| esc(&field)).join(" | "));
    }
}

/// Writes the published results of a grid, which include rates and CPU time.
fn reference_points(out: &mut String, run: &Run, reference: &ReferenceFigures) {
    let points = published::points(run, reference, &view::levels(run));
    let headings = points.headings.iter();
    let headings: Vec<String> = headings
        .map(|heading| format!("{heading} | here"))
        .collect();
    let _ = writeln!(out, "| at | served by | {} |", headings.join(" | "));
    let _ = writeln!(out, "|---|---|{}", "--:|--:|".repeat(headings.len()));
    for line in &points.lines {
        let figures = line.figures.iter();
        let figures: Vec<String> = figures
            .map(|(theirs, ours)| format!("{} | {}", esc(theirs), esc(ours)))
            .collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            esc(&line.label),
            esc(&line.subject),
            figures.join(" | ")
        );
    }
    let _ = writeln!(out, "\n{CAPTION}");
}

fn configuration(out: &mut String, run: &Run) {
    out.push_str("\n## Configuration\n\n");
    let _ = writeln!(out, "- Command: {}", esc(&run.command_line.join(" ")));
    let _ = writeln!(
        out,
        "- Started {}, finished {}",
        esc(&run.started_utc),
        esc(&run.finished_utc)
    );
    let _ = writeln!(out, "- weir {}", esc(&run.weir_version));
    for (name, version) in &run.versions {
        let _ = writeln!(out, "- {} {}", esc(name), esc(version));
    }
    for group in &run.settings {
        let _ = writeln!(out, "\n| {} | |\n|---|---|", esc(&group.part));
        for setting in &group.settings {
            let _ = writeln!(out, "| {} | {} |", esc(&setting.name), esc(&setting.value));
        }
    }
    if !run.files.is_empty() {
        out.push_str("\n| file | content |\n|---|---|\n");
        for file in &run.files {
            let _ = writeln!(out, "| {} | {} |", esc(&file.path), esc(&file.description));
        }
    }
}
