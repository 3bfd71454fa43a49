//! Results from several cells: comparisons, searches, derived results, choice of an architecture,
//! grids and curves.

use std::fmt::Write as _;

use weir_stats::run::{DerivedFrom, Run};

use crate::chart::ChartFile;
use crate::escape::markdown as esc;
use crate::format;
use crate::view::Level;
use crate::{compare, cost, grid, sweep_table, view};

/// Writes comparisons, the maximum sustained load and derived results, if the run has them.
pub(super) fn answers(out: &mut String, run: &Run) {
    for comparison in &run.comparisons {
        let (base, other) = (&comparison.base.label, &comparison.other.label);
        let _ = writeln!(out, "\n## {} compared with {}\n", esc(other), esc(base));
        match compare::single_repetition_note(comparison) {
            Some(text) => {
                let _ = writeln!(out, "{}", esc(&text));
            }
            None => out.push_str(&compare::comparison_markdown(comparison)),
        }
    }
    if let Some(search) = &run.find_max {
        let _ = writeln!(
            out,
            "\n## Maximum sustained load\n\n{}\n",
            esc(&search.summary)
        );
        let _ = writeln!(
            out,
            "| {} | sustained | saturated | reason |\n|--:|---|---|---|",
            esc(&crate::chart::sweep::words(&search.variable))
        );
        for step in &search.steps {
            let held = match step.sustained {
                Some(true) => "yes",
                Some(false) => "no",
                None => "not measured",
            };
            let _ = writeln!(
                out,
                "| {} | {held} | {} | {} |",
                format::figure(Some(step.value)),
                esc(step.saturated_role.as_deref().unwrap_or_default()),
                esc(step.reason.as_deref().unwrap_or_default())
            );
        }
    }
    derived(out, run);
}

fn derived(out: &mut String, run: &Run) {
    if run.derived.is_empty() {
        return;
    }
    out.push_str(
        "\n## Derived results\n\n| result | of | value | derivation | from \
         |\n|---|---|--:|---|---|\n",
    );
    for answer in &run.derived {
        let basis = match answer.basis {
            DerivedFrom::Measured => "measured",
            DerivedFrom::Computed => "computed",
        };
        let value = match answer.value {
            Some(value) => format!("{} {}", format::figure(Some(value)), esc(&answer.unit)),
            None => "not available in this run".to_owned(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {value} | {basis} | {} |",
            esc(&answer.name),
            esc(&answer.of),
            esc(&answer.derivation)
        );
    }
}

/// Writes the cheapest architecture per number of clients.
pub(super) fn decision(out: &mut String, run: &Run) {
    let choices = cost::choices(run);
    if choices.is_empty() {
        return;
    }
    let headings = cost::HEADINGS;
    let _ = writeln!(
        out,
        "\n## Cost by architecture\n\n| {} |\n|--:|---|---|{}",
        headings.join(" | "),
        "--:|".repeat(headings.len() - 3)
    );
    for choice in &choices {
        let fields = cost::row(choice).map(|field| esc(&field));
        let _ = writeln!(out, "| {} |", fields.join(" | "));
    }
    let _ = writeln!(out, "\n{}", cost::CAPTION);
}

/// Writes clients by rate, one table per subject.
pub(super) fn grids(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    for name in view::subjects(run) {
        let Some(grid) = grid::rate_grid(&name, levels) else {
            continue;
        };
        let rates: Vec<String> = grid
            .rates
            .iter()
            .map(|it| format::figure(Some(*it)))
            .collect();
        let _ = writeln!(
            out,
            "\n## {}: clients by rate\n\nMean response time in {} (standard deviation); ✓ \
             sustained, ✗ not sustained.\n\n\
             | clients \\\\ records/s | {} |\n|--:|{}",
            esc(&name),
            grid.unit.name(),
            rates.join(" | "),
            "--:|".repeat(rates.len())
        );
        for (clients, points) in &grid.rows {
            let fields = points.iter().map(|point| match point {
                None => String::new(),
                Some(point) => match point.is_sustained {
                    Some(true) => format!("✓ {}", point.text),
                    Some(false) => format!("✗ {}", point.text),
                    None => point.text.clone(),
                },
            });
            let fields: Vec<String> = fields.map(|text| esc(&text)).collect();
            let _ = writeln!(
                out,
                "| {} | {} |",
                format::count(*clients),
                fields.join(" | ")
            );
        }
    }
}

/// Writes the tables of a sweep; returns `true` if there are any.
pub(super) fn sweeps(out: &mut String, run: &Run) -> bool {
    let tables = sweep_table::tables(run);
    for table in &tables {
        let _ = writeln!(
            out,
            "{}:\n\n| measured by | {} |\n|---|{}",
            table.title,
            table.headings.join(" | "),
            "--:|".repeat(table.headings.len())
        );
        for row in &table.rows {
            let figures = match &row.figures {
                Ok(figures) => figures.clone(),
                Err(reason) => vec![esc(reason)],
            };
            let mut fields = row.parameters.clone();
            fields.extend(figures);
            fields.resize(table.headings.len(), String::new());
            let _ = writeln!(out, "| {} | {} |", esc(&row.name), fields.join(" | "));
        }
        out.push('\n');
    }
    !tables.is_empty()
}

/// Writes links to the chart files next to the report.
pub(super) fn charts(out: &mut String, charts: &[ChartFile]) {
    for chart in charts {
        let _ = writeln!(out, "\n![{}]({})", esc(&chart.title), chart.file);
    }
}
