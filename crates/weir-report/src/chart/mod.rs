//! Static SVG charts, each drawn once for screen, print and both colour schemes.
//!
//! Colours come from `chart.css` by class: one slot per architecture, the same in every table and chart.

mod axis;
pub(crate) mod clients;
mod diagram;
mod fairness;
mod levels;
mod percentile;
mod plot;
mod series;
mod svg;

use weir_stats::run::Run;

pub(crate) use diagram::diagram;
pub(crate) use fairness::fairness;
pub(crate) use levels::{cpu, latency, memory, throughput};
pub(crate) use percentile::percentiles;
pub(crate) use series::{Quantity, over_time};

/// Rules that every chart needs, for the page and for stand-alone files.
pub(crate) const CSS: &str = include_str!("chart.css");

/// Latency by level as a file of its own, for Markdown.
pub(crate) fn latency_file(run: &Run) -> String {
    svg::standalone(&latency(run), plot::WIDTH, plot::HEIGHT)
}

/// Class that gives an architecture its colour and dash everywhere.
pub(crate) fn slot(run: &Run, architecture: &str) -> &'static str {
    const OTHERS: [&str; 3] = ["a4", "a5", "a6"];
    match architecture {
        "floor" => "a0",
        "gateway" => "a1",
        "standalone" => "a2",
        "groups" => "a3",
        other => {
            let known = ["floor", "gateway", "standalone", "groups"];
            let names = run.architectures();
            let mut unknown = names.iter().filter(|name| !known.contains(name));
            OTHERS[unknown.position(|name| *name == other).unwrap_or(0) % OTHERS.len()]
        }
    }
}
