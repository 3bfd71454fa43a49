//! Results by second: static charts of one level, interactive charts of all levels.

use std::fmt::Write as _;

use weir_stats::run::{Cell, SeriesPoint};

use super::element::{HtmlTable, figure};
use crate::chart::{self, SeriesQuantity};
use crate::escape::Markup;
use crate::format;
use crate::run_dir::RunData;
use crate::view::{self, Level};

/// Writes the section, unless nothing was recorded over time.
pub(crate) fn section(out: &mut String, data: &RunData, initial: Option<&Level<'_>>) {
    let Some(level) = initial else { return };
    let mut stills = String::new();
    for (quantity, caption) in QUANTITIES {
        if let Some(svg) = chart::over_time(&data.run, level, quantity) {
            figure(&mut stills, &svg, "", caption);
        }
    }
    if stills.is_empty() {
        return;
    }
    for row in level.valid() {
        let timeline = row.sample().and_then(|cell| data.timeline(cell));
        let slot = chart::slot(&data.run, &row.name);
        let svg = timeline.and_then(|timeline| chart::heat_map(&row.name, slot, timeline));
        if let Some(svg) = svg {
            let caption =
                "Each column is one second; darker means more deliveries with that latency.";
            figure(&mut stills, &svg, "", caption);
        }
    }
    let _ = write!(
        out,
        concat!(
            "<section id=\"time\">\n<h2>Results over time</h2>\n<div class=\"live\"></div>\n",
            "<div class=\"still\">\n<h3>{}</h3>\n<div class=\"grid2\">\n{}</div>\n</div>\n"
        ),
        Markup(&level.label()),
        stills
    );
    out.push_str(
        "<p class=\"caption\">Steps or a slope mean that the system was not in a steady state; a \
         dip followed by a peak is a stall. The schedule lag must be far below the latencies. \
         <span class=\"on-screen\">All charts share their cursor. Drag to zoom, double-click to \
         reset. Shaded: before the measured window.</span></p>\n",
    );
    noisy(out, data);
    no_script(out, data);
    out.push_str("</section>\n");
}

const QUANTITIES: [(SeriesQuantity, &str); 4] = [
    (
        SeriesQuantity::ResponseP99,
        "99th percentile of the deliveries in each second.",
    ),
    (
        SeriesQuantity::Delivered,
        "Deliveries to all clients per second.",
    ),
    (
        SeriesQuantity::DeliveringCpu,
        "Cores used by the gateway or floor, or by the broker if clients read from it directly.",
    ),
    (
        SeriesQuantity::ScheduleLag,
        "Send time minus due time, p99 per second.",
    ),
];

/// Writes the disturbed windows.
fn noisy(out: &mut String, data: &RunData) {
    let mut items = String::new();
    for cell in view::cells(&data.run) {
        for span in &cell.noisy {
            let _ = write!(
                items,
                "<li><b>{}</b> {} to {} s: {}</li>",
                Markup(&cell.id()),
                format::figure(Some(span.from_s)),
                format::figure(Some(span.until_s)),
                Markup(&span.reason)
            );
        }
    }
    if !items.is_empty() {
        let _ = writeln!(
            out,
            "<h3>Disturbed windows</h3>\n<ul class=\"remarks warning\">{items}</ul>"
        );
    }
}

/// Writes minimum, median and maximum of each chart, for browsers without scripts.
fn no_script(out: &mut String, data: &RunData) {
    let headings = [
        "Cell",
        "deliveries/s",
        "p99",
        "schedule lag p99",
        "CPU of the delivering process, cores",
    ];
    let mut table = HtmlTable::new(1, &headings);
    for cell in view::cells(&data.run) {
        let role = cell.delivering_role().map(|usage| usage.role.clone());
        let cpu = |point: &SeriesPoint| point.cpu_cores.get(role.as_deref()?).copied();
        let fields = [
            cell.id(),
            range(cell, |point| point.delivered_per_s, format::number),
            range(cell, |point| point.p99_us, time),
            range(cell, |point| point.lag_p99_us, time),
            range(cell, cpu, format::number),
        ];
        if cell.series.len() > 1 {
            table.row("", &fields);
        }
    }
    out.push_str(
        "<noscript>\n<p class=\"caption\">Lowest, median and highest second of every cell; every \
         second is in series.csv.</p>\n",
    );
    table.finish(out);
    out.push_str("</noscript>\n");
}

fn time(value_us: Option<f64>) -> String {
    value_us.map_or_else(|| format::NONE.to_owned(), format::duration_us)
}

fn range(
    cell: &Cell,
    pick: impl Fn(&SeriesPoint) -> Option<f64>,
    show: impl Fn(Option<f64>) -> String,
) -> String {
    let measured = cell.series.iter().filter(|point| point.t_s > 0.0);
    let mut values: Vec<f64> = measured
        .filter_map(pick)
        .filter(|value| value.is_finite())
        .collect();
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => format::NONE.to_owned(),
        all => format!(
            "{} · {} · {}",
            show(all.first().copied()),
            show(all.get(all.len() / 2).copied()),
            show(all.last().copied())
        ),
    }
}
