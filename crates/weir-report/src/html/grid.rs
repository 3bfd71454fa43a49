//! Runs with more coordinates than the number of clients: grids of clients and rates, and parameter
//! sweeps.

use maud::{Markup, html};
use weir_stats::run::Run;

use super::element::{chart, section};
use crate::chart::{curve, sweep};
use crate::format;
use crate::grid::{GridPoint, RateGrid, rate_grid};
use crate::view::{self, Level};

/// Returns grids, the latency curve, and one chart per metric of a sweep.
pub(crate) fn sections(run: &Run, levels: &[Level<'_>]) -> Markup {
    let subjects = view::subjects(run).into_iter();
    let grids: Vec<(String, RateGrid)> = subjects
        .filter_map(|name| rate_grid(&name, levels).map(|grid| (name, grid)))
        .collect();
    let curve = curve(run, levels);
    let sweeps = sweep::by_subject(run).into_iter();
    let sweeps: Vec<_> = sweeps
        .map(|(name, cells)| (name, sweep::sweeps(&cells)))
        .filter(|(_, charts)| !charts.is_empty())
        .collect();
    if grids.is_empty() && curve.is_none() && sweeps.is_empty() {
        return Markup::default();
    }
    let content = html! {
        @for (name, it) in &grids { (grid(name, it)) }
        @if let Some(svg) = curve { div.grid2 {
            (chart(&svg, "Each point is one load. The ring marks the last sustained load."))
        } }
        @for (name, charts) in &sweeps {
            h3 { (name) }
            div.grid2 { @for it in charts {
                @let tool = match it.has_tool {
                    true => " Dotted: Apache Kafka’s own tool in the same cells.",
                    false => "",
                };
                (chart(&it.svg, &format!("{name}: {}.{tool}", it.title)))
            } }
        }
    };
    section("charts", "Results by clients and rate", &content)
}

/// Returns a grid with a row per number of clients and a column per rate: mean, standard deviation
/// and whether the point was sustained.
fn grid(name: &str, grid: &RateGrid) -> Markup {
    html! {
        h3 { (name) ": mean response, " (grid.unit.name()) " (standard deviation)" }
        div.scroll { table.matrix {
            thead { tr {
                th scope="col" { "clients \\ records/s" }
                @for rate in &grid.rates { th.n scope="col" { (format::figure(Some(*rate))) } }
            } }
            tbody { @for (clients, points) in &grid.rows { tr {
                th scope="row" { (format::count(*clients)) }
                @for it in points { (point(it.as_ref())) }
            } "\n" } }
        } }
        p.caption {
            "Green: sustained. Red: not sustained; the reasons are below the comparison. Grey: not \
             run, because a smaller load was not sustained or exceeds the machine’s capacity."
        }
    }
}

fn point(point: Option<&GridPoint>) -> Markup {
    let (class, mark) = match point.and_then(|it| it.is_sustained) {
        Some(true) => ("pass", "✓"),
        Some(false) => ("fail", "✗"),
        None => ("none", ""),
    };
    html! { @if let Some(it) = point {
        td class={ "n " (class) } title=[Some(&it.reason).filter(|it| !it.is_empty())] {
            @if !mark.is_empty() { b.mark { (mark) } " " } (it.text)
        }
    } @else { td."n none" {} } }
}
