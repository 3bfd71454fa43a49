//! Latency by percentile: all subjects of a level, and the stages of one subject.

use std::fmt::Write as _;

use super::element::{HtmlTable, figure};
use crate::chart;
use crate::escape::Markup;
use crate::format::TimeUnit;
use crate::run_dir::RunData;
use crate::view::Level;

/// Writes subject curves for every level, and stage curves for the level shown first.
pub(crate) fn section(
    out: &mut String,
    data: &RunData,
    levels: &[Level<'_>],
    initial: Option<&Level<'_>>,
) {
    let plots: Vec<(String, String)> = levels
        .iter()
        .filter_map(|level| Some((level.label(), chart::percentiles(data, level)?)))
        .collect();
    if plots.is_empty() {
        return;
    }
    out.push_str(
        "<section id=\"percentiles\">\n<h2>Latency by percentile</h2>\n<div \
         class=\"live\"></div>\n\
         <div class=\"still grid2\">\n",
    );
    for (label, svg) in plots {
        figure(out, &svg, "", &format!("Response time, {label}."));
    }
    for row in initial.iter().flat_map(|level| level.valid()) {
        if let Some(svg) = chart::stages(data, row) {
            let label = initial.map(Level::label).unwrap_or_default();
            figure(
                out,
                &svg,
                "",
                &format!("All stages of {}, {label}.", row.name),
            );
        }
    }
    out.push_str(
        "</div>\n<p class=\"caption\">A point is the share of records that were at least this \
         fast; each step to the right has ten times fewer records above it. A curve ends where \
         samples are too few for the next percentile. <b>Response</b> starts at the due time of a \
         record, <b>service</b> at its send; the difference is schedule lag.</p>\n",
    );
    if let Some(level) = initial {
        super::stages::table(out, level);
    }
    no_script(out, levels);
    out.push_str("</section>\n");
}

/// Writes the values as a table, for browsers without scripts.
fn no_script(out: &mut String, levels: &[Level<'_>]) {
    let cells = || {
        levels
            .iter()
            .flat_map(Level::valid)
            .filter_map(|row| row.sample())
    };
    let medians_us = cells().filter_map(|cell| cell.response()?.p50_us);
    let unit = TimeUnit::for_values_us(medians_us);
    let headings = ["Cell", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];
    let mut table = HtmlTable::new(1, &headings);
    for cell in cells() {
        let Some(latency) = cell.response() else {
            continue;
        };
        let times_us = [
            latency.p50_us,
            latency.p90_us,
            latency.p95_us,
            latency.p99_us,
            latency.p999_us,
            latency.p9999_us,
            latency.max_us,
        ];
        let mut fields = vec![cell.id()];
        fields.extend(times_us.map(|us| unit.show(us)));
        table.row("", &fields);
    }
    let _ = writeln!(
        out,
        "<noscript>\n<p class=\"caption\">Response time in {}:</p>",
        Markup(unit.name())
    );
    table.finish(out);
    out.push_str("</noscript>\n");
}
