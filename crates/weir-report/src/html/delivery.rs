//! Charts and checks between the comparison and the configuration.

use maud::{Markup, html};
use weir_stats::run::{ReferenceRow, Run};

use super::element::{chart, section};
use crate::chart as charts;
use crate::format::{TimeUnit, count};
use crate::shared;
use crate::table::ReportTable;
use crate::view::{self, Level};

/// Returns `true` if charts by number of clients have more than one point.
pub(crate) fn varies(run: &Run, levels: &[Level<'_>]) -> bool {
    levels.len() > 1 && !view::is_grid(run)
}

/// Returns the chart of latency by number of clients.
pub(crate) fn by_load(run: &Run, levels: &[Level<'_>]) -> Markup {
    let [(_, _, caption, svg), ..] = charts::by_clients(run, levels);
    html! { @if let Some(svg) = svg { div.half { (chart(&svg, caption)) } } }
}

pub(crate) fn costs(run: &Run, levels: &[Level<'_>]) -> Markup {
    let published = |has: fn(&ReferenceRow) -> bool| {
        let mut rows = run.reference.iter().flat_map(|reference| &reference.rows);
        match rows.any(has) {
            true => " Pale with rings: published results from other hardware.",
            false => "",
        }
    };
    let latency_note = published(|row| row.latency_mean_ms.is_some());
    let bandwidth_note = published(|row| row.throughput_bit_per_s.is_some());
    let latency = format!("Mean latency of all deliveries.{latency_note}");
    let bandwidth = format!("Data received by all clients, in bits.{bandwidth_note}");
    let mut all = vec![
        (charts::clients::latency(run), latency),
        (charts::clients::bandwidth(run), bandwidth),
    ];
    // The first one is on the first screen.
    let shared = charts::by_clients(run, levels).into_iter();
    let shared = shared.skip(usize::from(varies(run, levels)));
    all.extend(shared.map(|(.., caption, svg)| (svg, caption.to_owned())));
    let content = html! {
        div.grid2 { @for (svg, caption) in &all { @if let Some(svg) = svg {
            (chart(svg, caption))
        } } }
    };
    section("charts", "Latency and cost by number of clients", &content)
}

pub(crate) fn fairness(run: &Run, levels: &[Level<'_>]) -> Markup {
    let Some(svg) = charts::fairness(run) else {
        return Markup::default();
    };
    let caption = "Distribution of the p99 of single clients. Dot: median client. Thick line: up \
                   to the 90th percentile. Thin line: best to worst client.";
    let rows = levels.iter().flat_map(Level::valid);
    let all: Vec<_> = rows
        .filter_map(|row| Some((row, row.sample()?.fairness?)))
        .collect();
    let medians_us = all.iter().filter_map(|(_, it)| it.client_p99_p50_us);
    let unit = TimeUnit::for_values_us(medians_us);
    let heading = |name: &str| format!("{name}, {}", unit.name());
    let (median, worst) = (heading("median p99"), heading("worst p99"));
    let headings = format!("Clients|architecture|{median}|{worst}|received per client");
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
    let content = html! {
        div."grid2 pair" { (chart(&svg, caption)) (table) }
    };
    section("fairness", "Fairness between clients", &content)
}

/// Returns delivery totals, client errors and the SDK probes.
pub(crate) fn losses(run: &Run) -> Markup {
    let (errors, probes) = (shared::client_errors(run), shared::probes(run));
    let content = html! {
        (shared::delivery(run))
        p.caption {
            "Every record due in the window carries a sequence number per key and producer; every \
             client checks that it receives each record once and in order. " b { "Conflated" }
            " records were replaced by a newer record before delivery, as the mode allows."
        }
        @if !errors.is_empty() { h3 { "Client errors" } (errors) }
        @if !probes.is_empty() { h3 { "SDK client" } }
        @for (ok, text) in &probes {
            @let (class, word) = if *ok { ("ok", "passed") } else { ("bad", "failed") };
            p.probe { span class={ "badge " (class) } { (word) } " " (text) } "\n"
        }
    };
    section("losses", "Delivery check", &content)
}
