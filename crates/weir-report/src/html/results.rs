//! The main comparison: one row per level and architecture.

use std::fmt::Write as _;

use weir_stats::run::Run;

use crate::chart::slot;
use crate::escape::Markup;
use crate::format::{self, TimeUnit};
use crate::sweep_table::{self, SweepTable};
use crate::view::{Level, RowFigures, RowStatus, SubjectRow};

/// Number of columns after the name of the row.
const COLUMNS: usize = 17;
/// Index of the column that compares CPU time with the floor.
const CPU_RATIO: usize = 10;

/// Writes the section with the table.
pub(crate) fn section(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    let p50s_us = levels
        .iter()
        .flat_map(Level::valid)
        .filter_map(|row| row.figures.p50_us);
    let unit = TimeUnit::for_values_us(p50s_us);
    out.push_str("<section id=\"results\">\n<h2>Results</h2>\n");
    let swept = sweep_table::tables(run);
    if !swept.is_empty() {
        for table in &swept {
            sweep(out, table);
        }
        out.push_str("</section>\n");
        return;
    }
    out.push_str("<div class=\"scroll\"><table class=\"results\">\n");
    head(out, unit);
    for level in levels {
        body(out, run, level, unit);
    }
    out.push_str("</table></div>\n");
    limits(out, levels);
    out.push_str(
        "<p class=\"caption\">Latency starts at the due time of a record, so a late sender hides \
         nothing. <b>CPU</b>: CPU time of the delivering process (gateway or floor; the broker if \
         clients read from it directly) per wanted delivery. <b>With broker</b>: including the \
         broker. <b>× floor</b>: relative to the baseline server in the same run, with a 95 % \
         interval if there are repetitions. Values are geometric means over repetitions; losses \
         are summed. – means too few samples or not measured.</p>\n</section>\n",
    );
}

/// Writes the results of a sweep, which has no clients and no deliveries.
fn sweep(out: &mut String, table: &SweepTable) {
    let _ = write!(
        out,
        "<h3>{}</h3>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">measured by</th>",
        table.title
    );
    for heading in &table.headings {
        let _ = write!(out, "<th scope=\"col\" class=\"n\">{heading}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", Markup(&row.name));
        let cell = |text: &String| format!("<td class=\"n\">{}</td>", Markup(text));
        out.extend(row.parameters.iter().map(cell));
        match &row.figures {
            Ok(figures) => out.extend(figures.iter().map(cell)),
            Err(reason) => {
                let columns = table.headings.len() - row.parameters.len();
                let _ = write!(
                    out,
                    "<td colspan=\"{columns}\" class=\"reason\">{}</td>",
                    Markup(reason)
                );
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Writes the reasons for levels that were not sustained, with the saturated role.
fn limits(out: &mut String, levels: &[Level<'_>]) {
    let rows = levels
        .iter()
        .flat_map(|level| level.rows.iter().map(move |row| (level, row)));
    let unwanted: Vec<_> = rows
        .clone()
        .filter_map(|(level, row)| Some((level.label(), row, row.unwanted()?)))
        .collect();
    if !unwanted.is_empty() {
        out.push_str("<ul class=\"remarks\">");
        for (label, row, text) in unwanted {
            let name = Markup(&row.name);
            let _ = write!(
                out,
                "<li><b>{name}</b>, {}: {}</li>",
                Markup(&label),
                Markup(&text)
            );
        }
        out.push_str("</ul>\n");
    }
    let limits: Vec<_> = rows
        .filter_map(|(level, row)| Some((level.label(), row, row.limit()?)))
        .collect();
    if limits.is_empty() {
        return;
    }
    out.push_str("<ul class=\"remarks warning\">");
    for (label, row, limit) in limits {
        let _ = write!(
            out,
            "<li><b>{}</b> did not sustain {}: {}</li>",
            Markup(&row.name),
            Markup(&label),
            Markup(&limit)
        );
    }
    out.push_str("</ul>\n");
}

fn head(out: &mut String, unit: TimeUnit) {
    let _ = write!(
        out,
        concat!(
            "<thead>\n<tr><td></td><th colspan=\"7\" class=\"g\">Latency, {}</th>",
            "<th colspan=\"2\" class=\"g\">Throughput</th>",
            "<th colspan=\"3\" class=\"g\">CPU, µs per record</th>",
            "<th class=\"g\">Memory</th><th colspan=\"4\" class=\"g\">Delivery \
             check</th></tr>\n<tr>"
        ),
        unit.name()
    );
    out.push_str("<th scope=\"col\">Clients</th>");
    let headings = [
        "mean",
        "sd",
        "p50",
        "p99",
        "× floor",
        "p99.9",
        "max",
        "delivered/s",
        "Mbit/s",
        "own",
        "× floor",
        "with broker",
        "kB/client",
        "lost",
        "dup",
        "reord",
        "confl",
    ];
    for (index, heading) in headings.iter().enumerate() {
        let _ = write!(
            out,
            "<th scope=\"col\" class=\"{}\">{heading}</th>",
            class_of(index)
        );
    }
    out.push_str("</tr>\n</thead>\n");
}

/// Returns the class of a column; the first column of each group has a margin.
fn class_of(index: usize) -> &'static str {
    if matches!(index, 0 | 7 | 9 | 12 | 13) {
        "n first"
    } else {
        "n"
    }
}

fn body(out: &mut String, run: &Run, level: &Level<'_>, unit: TimeUnit) {
    // A grid point with a single subject takes one row.
    let is_alone = level.rows.len() == 1 && !level.parameters.is_empty();
    out.push_str("<tbody>\n");
    if !is_alone {
        let _ = writeln!(
            out,
            "<tr class=\"level\"><th scope=\"rowgroup\">{}</th><td \
             colspan=\"{COLUMNS}\"></td></tr>",
            Markup(&level.label())
        );
    }
    for row in &level.rows {
        let slot = slot(run, &row.name);
        let (class, badge) = match row.state {
            RowStatus::Valid if row.limit().is_some() => {
                ("", " <span class=\"badge warn\">not sustained</span>")
            }
            RowStatus::Valid => ("", ""),
            RowStatus::Invalid(_) => ("invalid", " <span class=\"badge bad\">invalid</span>"),
            RowStatus::Skipped(_) => ("skipped", " <span class=\"badge\">skipped</span>"),
        };
        let _ = write!(
            out,
            "<tr class=\"{class}\"><th scope=\"row\"><i class=\"swatch {slot}\"></i>{}{badge}</th>",
            Markup(&match is_alone {
                true => format!("{}, {}", row.name, level.label()),
                false => row.name.clone(),
            })
        );
        match &row.state {
            RowStatus::Valid => figures(out, row, unit),
            RowStatus::Invalid(reasons) => reason(out, &reasons.join("; ")),
            RowStatus::Skipped(text) => reason(out, text),
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n");
}

fn reason(out: &mut String, text: &str) {
    let _ = write!(
        out,
        "<td colspan=\"{COLUMNS}\" class=\"reason\">{}</td>",
        Markup(text)
    );
}

fn figures(out: &mut String, row: &SubjectRow<'_>, unit: TimeUnit) {
    let figures = &row.figures;
    let shown = [
        unit.show(figures.mean_us),
        unit.show(figures.stddev_us),
        unit.show(figures.p50_us),
        unit.show(figures.p99_us),
        format::factor(row.p99_ratio),
        unit.show(figures.p999_us),
        unit.show(figures.max_us),
        format::number(figures.delivered_per_s),
        format::number(figures.mbit_per_s),
        format::number(figures.cpu_us_delivering),
        format::factor(row.cpu_ratio.map(|ratio| ratio.value)),
        format::number(figures.cpu_us_servers),
        format::kilobytes(figures.memory_per_client_bytes),
    ];
    for (index, text) in shown.iter().enumerate() {
        let strong = if matches!(index, 3 | 9) {
            " strong"
        } else {
            ""
        };
        let interval = if index == CPU_RATIO {
            cpu_interval(row)
        } else {
            String::new()
        };
        let _ = write!(
            out,
            "<td class=\"{}{strong}\">{}{interval}</td>",
            class_of(index),
            Markup(text)
        );
    }
    losses(out, figures, shown.len());
}

/// Returns the interval for a second line, so that the values stay aligned.
fn cpu_interval(row: &SubjectRow<'_>) -> String {
    match row.cpu_ratio.and_then(|ratio| ratio.bounds) {
        Some((low, high)) if !row.is_floor() => {
            format!("<small>{low:.2} to {high:.2}</small>")
        }
        _ => String::new(),
    }
}

fn losses(out: &mut String, figures: &RowFigures, from: usize) {
    let counts = [
        figures.lost,
        figures.duplicated,
        figures.reordered,
        figures.conflated,
    ];
    for (index, value) in counts.into_iter().enumerate() {
        // Conflated records are not a loss.
        let bad = match value {
            Some(value) if value > 0 && index < 3 => " bad",
            _ => "",
        };
        let _ = write!(
            out,
            "<td class=\"{}{bad}\">{}</td>",
            class_of(from + index),
            format::maybe_count(value)
        );
    }
}
