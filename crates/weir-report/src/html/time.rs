//! Results by second: static charts of one level, interactive charts of all levels.

use maud::{Markup, html};
use weir_stats::run::{Cell, SeriesPoint};

use super::element::{chart, remarks, section};
use crate::chart::{QUANTITIES, heat_map, over_time, slot};
use crate::format;
use crate::run_dir::RunData;
use crate::table::ReportTable;
use crate::view::{self, Level};

/// Returns the section, unless nothing was recorded over time.
pub(crate) fn sections(data: &RunData, initial: Option<&Level<'_>>) -> Markup {
    let Some(level) = initial else {
        return Markup::default();
    };
    let stills = QUANTITIES.iter().filter_map(|quantity| {
        let svg = over_time(&data.run, level, quantity)?;
        Some(chart(&svg, quantity.caption))
    });
    let mut stills: Vec<Markup> = stills.collect();
    if stills.is_empty() {
        return Markup::default();
    }
    stills.extend(level.valid().filter_map(|row| {
        let timeline = data.timeline(row.sample()?)?;
        let svg = heat_map(&row.name, slot(&data.run, &row.name), timeline)?;
        let caption = "Each column is one second; darker means more deliveries with that latency.";
        Some(chart(&svg, caption))
    }));
    let noisy: Vec<Markup> = view::cells(&data.run)
        .into_iter()
        .flat_map(|cell| cell.noisy.iter().map(move |span| (cell, span)))
        .map(|(cell, span)| {
            let [from, until] = [span.from_s, span.until_s].map(|s| format::figure(Some(s)));
            html! { b { (cell.id()) } " " (from) " to " (until) " s: " (span.reason) }
        })
        .collect();
    let content = html! {
        div.live {}
        div.still { h3 { (level.label()) } div.grid2 { @for still in stills { (still) } } }
        p.caption {
            "Steps or a slope mean that the system was not in a steady state; a dip followed by a \
             peak is a stall. The schedule lag must be far below the latencies. "
            span.on-screen {
                "All charts share their cursor. Drag to zoom, double-click to reset. Shaded: \
                 before the measured window."
            }
        }
        @if !noisy.is_empty() { h3 { "Disturbed windows" } (remarks("warning", noisy)) }
        noscript {
            p.caption {
                "Lowest, median and highest second of every cell; every second is in series.csv."
            }
            (ranges(data))
        }
    };
    section("time", "Results over time", &content)
}

/// Returns minimum, median and maximum of each chart, for browsers without scripts.
fn ranges(data: &RunData) -> ReportTable {
    let headings = "Cell|deliveries/s|p99|schedule lag p99|CPU of the delivering process, cores";
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
