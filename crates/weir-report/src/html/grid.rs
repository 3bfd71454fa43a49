//! Runs with more coordinates than the number of clients: grids of clients and rates, and parameter
//! sweeps.

use std::fmt::Write as _;

use weir_stats::run::{Cell, Run};

use super::element::figure;
use crate::chart::{self, sweep};
use crate::escape::Markup;
use crate::format;
use crate::grid::{GridPoint, rate_grid};
use crate::view::Level;

/// Writes grids, the latency curve, and one chart per metric of a sweep.
pub(crate) fn section(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    let mut body = String::new();
    for name in crate::view::subjects(run) {
        grid(&mut body, &name, levels);
    }
    let mut charts = String::new();
    if let Some(svg) = chart::curve(run, levels) {
        figure(
            &mut charts,
            &svg,
            "",
            "Each point is one load. The ring marks the last sustained load.",
        );
    }
    if !charts.is_empty() {
        let _ = writeln!(body, "<div class=\"grid2\">\n{charts}</div>");
    }
    for (name, cells) in sweep::by_subject(run) {
        sweeps(&mut body, &name, &cells);
    }
    if !body.is_empty() {
        let _ = write!(
            out,
            "<section id=\"charts\">\n<h2>Results by clients and rate</h2>\n{body}</section>\n"
        );
    }
}

/// Writes a grid with a row per number of clients and a column per rate: mean, standard deviation
/// and whether the point was sustained.
fn grid(out: &mut String, name: &str, levels: &[Level<'_>]) {
    let Some(grid) = rate_grid(name, levels) else {
        return;
    };
    let _ = write!(
        out,
        concat!(
            "<h3>{}: mean response, {} (standard deviation)</h3>\n<div class=\"scroll\">",
            "<table class=\"matrix\">\n<thead><tr><th scope=\"col\">clients \\ records/s</th>"
        ),
        Markup(name),
        grid.unit.name()
    );
    for rate in &grid.rates {
        let _ = write!(
            out,
            "<th scope=\"col\" class=\"n\">{}</th>",
            format::figure(Some(*rate))
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (clients, points) in &grid.rows {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th>",
            format::count(*clients)
        );
        for it in points {
            point(out, it.as_ref());
        }
        out.push_str("</tr>\n");
    }
    out.push_str(
        "</tbody></table></div>\n<p class=\"caption\">Green: sustained. Red: not sustained; the \
         reasons are below the comparison. Grey: not run, because a smaller load was not sustained \
         or exceeds the machine’s capacity.</p>\n",
    );
}

fn point(out: &mut String, point: Option<&GridPoint>) {
    let Some(point) = point else {
        out.push_str("<td class=\"n none\"></td>");
        return;
    };
    let (class, mark) = match point.is_sustained {
        Some(true) => ("pass", "<b class=\"mark\">✓</b> "),
        Some(false) => ("fail", "<b class=\"mark\">✗</b> "),
        None => ("none", ""),
    };
    let title = match point.reason.is_empty() {
        true => String::new(),
        false => format!(" title=\"{}\"", Markup(&point.reason)),
    };
    let _ = write!(
        out,
        "<td class=\"n {class}\"{title}>{mark}{}</td>",
        Markup(&point.text)
    );
}

fn sweeps(out: &mut String, name: &str, cells: &[&Cell]) {
    let charts = sweep::sweeps(cells);
    if charts.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h3>{}</h3>\n<div class=\"grid2\">", Markup(name));
    for chart in charts {
        let dotted = match chart.has_tool {
            true => " Dotted: Apache Kafka’s own tool in the same cells.",
            false => "",
        };
        let caption = format!("{name}: {}.{dotted}", chart.title);
        figure(out, &chart.svg, "", &caption);
    }
    out.push_str("</div>\n");
}
