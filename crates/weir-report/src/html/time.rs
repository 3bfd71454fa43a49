//! Results by second: static charts of one level, interactive charts of all levels.

use maud::{Markup, html};
use weir_stats::run::{Cell, SeriesPoint};

use super::element::{Section, chart, part};
use crate::chart::{OverTime, QUANTITIES, disturbed, heat_map, over_time, slot};
use crate::format;
use crate::run_dir::RunData;
use crate::table::ReportTable;
use crate::view::{self, Level};

/// Returns the section; it is empty if nothing was recorded over time.
pub(crate) fn section(data: &RunData, initial: Option<&Level<'_>>) -> Section {
    let content = initial.map(|level| charts(data, level));
    Section::new("time", "Over time", content.unwrap_or_default())
}

fn charts(data: &RunData, level: &Level<'_>) -> Markup {
    let (mut stills, mut constants) = (Vec::new(), Vec::new());
    for quantity in &QUANTITIES {
        match over_time(&data.run, level, quantity) {
            Some(OverTime::Chart(svg)) => stills.push(chart(&svg, quantity.caption)),
            Some(OverTime::Constant(text)) => constants.push(text),
            None => {}
        }
    }
    if stills.is_empty() && constants.is_empty() {
        return Markup::default();
    }
    stills.extend(level.valid().filter_map(|row| {
        let timeline = data.timeline(row.representative()?)?;
        let svg = heat_map(&row.name, slot(&data.run, &row.name), timeline)?;
        let caption = "Each column is one second; darker means more deliveries with that latency.";
        Some(chart(&svg, caption))
    }));
    let noisy = disturbances(data);
    html! {
        div.live {}
        div.still {
            h3 { (level.label()) }
            div.grid2 { @for still in stills { (still) } }
            @if !constants.is_empty() {
                p.caption { "Constant, so without a chart: " (constants.join(", ")) "." }
            }
        }
        p.caption {
            "Steps or a slope mean that the system was not in a steady state; a dip followed by a \
             peak is a stall. The schedule lag must be far below the latencies. A line is \
             interrupted where a second has too few samples. "
            @if !noisy.is_empty() {
                "Yellow bands: seconds in which a cell that is shown was disturbed; the list is \
                 below. "
            }
            span.on-screen {
                "All charts share their cursor. Drag to zoom, double-click to reset. Grey: before \
                 the measured window."
            }
        }
        @if !noisy.is_empty() {
            (part("disturbances", "Disturbed seconds", &html! { (noisy) }))
        }
        noscript {
            p.caption {
                "Lowest, median and highest second of every cell; every second is in series.csv."
            }
            (ranges(data))
        }
    }
}

/// Returns the disturbed seconds of each cell, with the first reason as an example.
fn disturbances(data: &RunData) -> ReportTable {
    let mut table = ReportTable::headed(1, "cell|disturbed, s|of, s|first reason").text_from(3);
    for cell in view::cells(&data.run) {
        let Some(first) = cell.noisy.first() else {
            continue;
        };
        let spans_s: f64 = disturbed(&[cell])
            .iter()
            .map(|(from, until)| until - from)
            .sum();
        let [spans_s, hold_s] = [spans_s, cell.hold_s].map(|s| format::figure(Some(s)));
        table.row("", [&cell.id(), &spans_s, &hold_s, &first.reason]);
    }
    table
}

/// Returns minimum, median and maximum of each chart, for browsers without scripts.
fn ranges(data: &RunData) -> ReportTable {
    let headings = "cell|deliveries/s|p99|schedule lag p99|CPU of the delivering process, cores";
    let mut table = ReportTable::headed(1, headings);
    let cells = view::cells(&data.run).into_iter();
    for cell in cells.filter(|cell| cell.series.len() > 1) {
        let role = cell.delivering_role().map(|usage| usage.role.as_str());
        let cpu = |point: &SeriesPoint| point.cpu_cores.get(role?).copied();
        let fields = [
            cell.id(),
            range(cell, |point| point.delivered_per_s, format::number),
            range(cell, |point| point.p99_us, format::maybe_duration_us),
            range(cell, |point| point.lag_p99_us, format::maybe_duration_us),
            range(cell, cpu, format::number),
        ];
        table.row("", fields);
    }
    table
}

fn range(
    cell: &Cell,
    pick: impl Fn(&SeriesPoint) -> Option<f64>,
    show: impl Fn(Option<f64>) -> String,
) -> String {
    let measured = cell.series.iter().filter(|point| point.t_s > 0.0);
    let finite = measured.filter_map(pick).filter(|value| value.is_finite());
    let mut values: Vec<f64> = finite.collect();
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => format::NONE.to_owned(),
        all => [0, all.len() / 2, all.len() - 1]
            .map(|at| show(Some(all[at])))
            .join(" · "),
    }
}
