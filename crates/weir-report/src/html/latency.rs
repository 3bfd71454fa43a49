//! Latency by load, by percentile, by stage and by client.

use maud::{Markup, html};
use weir_stats::run::{ReferenceRow, Run};

use super::element::{Section, chart, part};
use super::{first_screen, grid, percentiles};
use crate::chart as charts;
use crate::format::{TimeUnit, count};
use crate::run_dir::RunData;
use crate::table::ReportTable;
use crate::view::{self, Level};

pub(crate) fn section(
    data: &RunData,
    levels: &[Level<'_>],
    initial: Option<&Level<'_>>,
) -> Section {
    let run = &data.run;
    let content = html! {
        (grid::parts(run, levels))
        (part("by-load", "By number of clients", &by_load(run, levels)))
        (percentiles::parts(data, levels, initial))
        (part("fairness", "Fairness between clients", &fairness(run, levels)))
    };
    Section::new("latency", "Latency", content)
}

/// Returns the charts by number of clients, except that of the first screen.
fn by_load(run: &Run, levels: &[Level<'_>]) -> Markup {
    if !view::has_levels(run, levels) {
        return Markup::default();
    }
    let mean = charts::clients::latency(run, levels).map(|svg| {
        let note = match published(run, levels, |row| row.latency_mean_ms.is_some()) {
            true => " Pale with rings: published results from other hardware.",
            false => "",
        };
        (svg, format!("Mean latency of all deliveries.{note}"))
    });
    let others = charts::by_clients(run, levels).into_iter();
    let others = others
        .filter(|it| it.topic == charts::Topic::Latency && it.file != first_screen::CHART)
        .filter_map(|it| Some((it.svg?, it.caption.to_owned())));
    let all: Vec<(String, String)> = mean.into_iter().chain(others).collect();
    html! { @if !all.is_empty() {
        div.grid2 { @for (svg, caption) in &all { (chart(svg, caption)) } }
    } }
}

/// Returns `true` if the publication has such a value at a level of this run.
pub(crate) fn published(run: &Run, levels: &[Level<'_>], has: fn(&ReferenceRow) -> bool) -> bool {
    let mut rows = run.reference.iter().flat_map(|it| &it.rows);
    rows.any(|row| view::is_run(levels, row) && has(row))
}

fn fairness(run: &Run, levels: &[Level<'_>]) -> Markup {
    let Some(svg) = charts::fairness(run) else {
        return Markup::default();
    };
    let caption = "Distribution of the p99 of single clients. Dot: median client. Thick line: up \
                   to the 90th percentile. Thin line: best to worst client.";
    let rows = levels.iter().flat_map(Level::valid);
    let all: Vec<_> = rows
        .filter_map(|row| Some((row, row.representative()?.fairness?)))
        .collect();
    let medians_us = all.iter().filter_map(|(_, it)| it.client_p99_p50_us);
    let unit = TimeUnit::for_values_us(medians_us);
    let heading = |name: &str| format!("{name}, {}", unit.name());
    let (median, worst) = (heading("median p99"), heading("worst p99"));
    let headings = format!("clients|architecture|{median}|{worst}|received per client");
    let mut table = ReportTable::headed(2, &headings);
    for (row, it) in all {
        let received = match (it.deliveries_min, it.deliveries_max) {
            (fewest, most) if fewest == most => count(most),
            (fewest, most) => format!("{} to {}", count(fewest), count(most)),
        };
        let median = unit.show(it.client_p99_p50_us);
        let worst = unit.show(it.client_p99_max_us);
        let clients = count(row.clients());
        table.row("", [&clients, &row.name, &median, &worst, &received]);
    }
    html! { div."grid2 pair" { (chart(&svg, caption)) (table) } }
}
