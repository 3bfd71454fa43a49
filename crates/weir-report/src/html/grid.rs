//! Runs with more coordinates than the number of clients: grids of clients and rates, and parameter
//! sweeps.

use maud::{Markup, html};
use weir_stats::run::Run;

use super::element::{chart, part};
use crate::chart::{curve, sweep};
use crate::grid::rate_grid;
use crate::view::{self, Level};

/// Returns grids, the latency curve, and one chart per metric of a sweep.
pub(crate) fn parts(run: &Run, levels: &[Level<'_>]) -> Markup {
    if !view::is_grid(run) {
        return Markup::default();
    }
    let subjects = view::subjects(run).into_iter();
    let grids = subjects.filter_map(|name| rate_grid(&name, levels).map(|grid| (name, grid)));
    let grids: Vec<_> = grids.collect();
    let curve = curve(run, levels);
    let sweeps = sweep::by_subject(run).into_iter();
    let sweeps: Vec<_> = sweeps
        .map(|(name, cells)| (name, sweep::sweeps(&cells)))
        .filter(|(_, charts)| !charts.is_empty())
        .collect();
    let content = html! {
        @for (name, (unit, table)) in &grids {
            h4 { (name) ": mean response, " (unit.name()) " (standard deviation)" }
            (table)
            p.caption {
                "Green: sustained. Red: not sustained; the reasons are below the comparison. Grey: \
                 not run, because a smaller load was not sustained or exceeds the machine’s \
                 capacity."
            }
        }
        @if let Some(svg) = curve { div.grid2 {
            (chart(&svg, "Each point is one load. The ring marks the last sustained load."))
        } }
        @for (name, charts) in &sweeps {
            h4 { (name) }
            div.grid2 { @for it in charts {
                @let tool = match it.has_tool {
                    true => " Dotted: Apache Kafka’s own tool in the same cells.",
                    false => "",
                };
                (chart(&it.svg, &format!("{name}: {}.{tool}", it.title)))
            } }
        }
    };
    part("grid", "By clients and rate", &content)
}
