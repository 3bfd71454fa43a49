//! Runs with more coordinates than the number of clients: grids of clients and rates, and sweeps of parameters.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weir_stats::run::{Cell, Run};

use super::element::figure;
use crate::chart::{self, sweep};
use crate::escape::Markup;
use crate::format::{self, TimeUnit};
use crate::view::{Level, Row, State};

/// The parameter that makes a grid beside the number of clients.
const RATE: &str = "rate_per_s";

/// Grids, the curve, and one chart per figure that was swept.
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
            "Each point is one load. The ring marks the last one that was held before one that was not.",
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
            "<section id=\"charts\">\n<h2>Over the grid</h2>\n{body}</section>\n"
        );
    }
}

/// Clients down, rates across: mean and deviation, and whether the point was held.
fn grid(out: &mut String, name: &str, levels: &[Level<'_>]) {
    let points = || {
        levels.iter().flat_map(|level| {
            let rows = level.rows.iter().filter(|row| row.name == name);
            rows.filter_map(move |row| Some((level.clients, *level.parameters.get(RATE)?, row)))
        })
    };
    let clients: BTreeSet<u64> = points().map(|(clients, ..)| clients).collect();
    let mut rates: Vec<f64> = points().map(|(_, rate, _)| rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    if clients.len() < 2 || rates.len() < 2 {
        return;
    }
    let means_us = points().filter_map(|(_, _, row)| row.figures.mean_us);
    let unit = TimeUnit::for_values_us(means_us);
    let _ = write!(
        out,
        concat!(
            "<h3>{}: mean response, {} (standard deviation)</h3>\n<div class=\"scroll\">",
            "<table class=\"matrix\">\n<thead><tr><th scope=\"col\">clients \\ records/s</th>"
        ),
        Markup(name),
        unit.name()
    );
    for rate in &rates {
        let _ = write!(
            out,
            "<th scope=\"col\" class=\"n\">{}</th>",
            format::figure(Some(*rate))
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for clients in clients {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", format::count(clients));
        for rate in &rates {
            let found = points().find(|(c, r, _)| *c == clients && r == rate);
            point(out, found.map(|(.., row)| row), unit);
        }
        out.push_str("</tr>\n");
    }
    out.push_str(
        "</tbody></table></div>\n<p class=\"caption\">Green: held. Red: not held; the reasons stand below the \
         comparison. Grey: not run, because a smaller load was not held already or the machine does not reach \
         it.</p>\n",
    );
}

fn point(out: &mut String, row: Option<&Row<'_>>, unit: TimeUnit) {
    let Some(row) = row else {
        out.push_str("<td class=\"n none\"></td>");
        return;
    };
    let figures = &row.figures;
    let (class, text, why) = match (&row.state, row.limit()) {
        (State::Skipped(reason), _) => ("none", "not run".to_owned(), reason.clone()),
        (State::Invalid(reasons), _) => ("none", "invalid".to_owned(), reasons.join("; ")),
        (State::Valid, limit) => {
            let text = format!(
                "{} ({})",
                unit.show(figures.mean_us),
                unit.show(figures.stddev_us)
            );
            match limit {
                Some(why) => ("fail", text, why),
                None => ("pass", text, String::new()),
            }
        }
    };
    let mark = match class {
        "pass" => "<b class=\"mark\">✓</b> ",
        "fail" => "<b class=\"mark\">✗</b> ",
        _ => "",
    };
    let title = match why.is_empty() {
        true => String::new(),
        false => format!(" title=\"{}\"", Markup(&why)),
    };
    let _ = write!(
        out,
        "<td class=\"n {class}\"{title}>{mark}{}</td>",
        Markup(&text)
    );
}

fn sweeps(out: &mut String, name: &str, cells: &[&Cell]) {
    let charts = sweep::sweeps(cells);
    if charts.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h3>{}</h3>\n<div class=\"grid2\">", Markup(name));
    for chart in charts {
        figure(out, &chart.svg, "", &format!("{}: {}.", name, chart.title));
    }
    out.push_str("</div>\n");
}
