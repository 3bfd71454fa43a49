//! The first screen below the answer: one table relative to the best, and one chart.

use maud::{Markup, html};

use super::element::{Section, chart};
use crate::chart::{self as charts, OverTime, QUANTITIES};
use crate::run_dir::RunData;
use crate::summary;
use crate::view::{self, Level};

/// Chart by number of clients that is on the first screen.
pub(crate) const CHART: &str = "latency";

/// Returns the section; it is empty if nothing was measured.
pub(crate) fn section(
    data: &RunData,
    levels: &[Level<'_>],
    initial: Option<&Level<'_>>,
) -> Section {
    let Some(summary) = summary::summary(&data.run, levels) else {
        return Section::new("summary", "", Markup::default());
    };
    let drawn = first_chart(data, levels, initial);
    let content = html! {
        div.sortable { (summary.table) }
        p.caption { (summary.caption) }
        @if let Some((svg, caption)) = drawn { div.half { (chart(&svg, &caption)) } }
    };
    Section::new("summary", summary.title, content).linked_as("Summary")
}

/// Returns the chart that shows most of what varies: loads, else percentiles, else seconds.
fn first_chart(
    data: &RunData,
    levels: &[Level<'_>],
    initial: Option<&Level<'_>>,
) -> Option<(String, String)> {
    let run = &data.run;
    if let Some(search) = &run.find_max {
        return charts::search(search);
    }
    if run.libraries.is_some() {
        return None;
    }
    if view::has_levels(run, levels) {
        let all = charts::by_clients(run, levels).into_iter();
        let mut own = all.filter(|it| it.file == CHART);
        return own
            .next()
            .and_then(|it| Some((it.svg?, it.caption.to_owned())));
    }
    if let Some(svg) = charts::throughput_by_subject(run) {
        return Some((svg, charts::THROUGHPUT_CAPTION.to_owned()));
    }
    if let Some(svg) = charts::curve(run, levels) {
        let caption = "Each point is one load. The ring marks the last sustained load.";
        return Some((svg, caption.to_owned()));
    }
    let sweeps = charts::sweep::by_subject(run).into_iter();
    let mut sweeps = sweeps.flat_map(|(name, cells)| {
        let all = charts::sweep::sweeps(&cells).into_iter();
        all.map(move |it| (it.svg, format!("{name}: {}.", it.title)))
    });
    let latency = |(_, caption): &(String, String)| caption.contains("latency mean");
    if let Some(found) = sweeps.find(latency) {
        return Some(found);
    }
    let level = initial?;
    if let Some(svg) = charts::percentiles(data, level) {
        let caption = "Response time by percentile; each step to the right is ten times rarer. \
                       Lower is better.";
        return Some((svg, caption.to_owned()));
    }
    match charts::over_time(run, level, &QUANTITIES[0])? {
        OverTime::Chart(svg) => Some((svg, QUANTITIES[0].caption.to_owned())),
        OverTime::Constant(_) => None,
    }
}
