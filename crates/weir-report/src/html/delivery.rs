//! Charts and checks between the comparison and the configuration.

use maud::{Markup, html};
use weir_stats::run::{ReferenceRow, Run, SdkProbe};

use super::element::{chart, section};
use crate::chart as charts;
use crate::format::{self, TimeUnit, count};
use crate::shared;
use crate::table::ReportTable;
use crate::view::{self, Level};

/// Returns latency, CPU and memory by level.
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
    let all = [
        (
            charts::clients::latency(run),
            format!("Mean latency of all deliveries.{latency_note}"),
        ),
        (
            charts::clients::bandwidth(run),
            format!("Data received by all clients, in bits.{bandwidth_note}"),
        ),
        (
            Some(charts::latency(run)),
            "Dot: p50. Crossbar: p99. Thin line: up to the maximum. Lower is better. Logarithmic \
             scale: each grid step is a factor."
                .to_owned(),
        ),
        (
            Some(charts::cpu(run)),
            "CPU time per record delivered to one client. Solid, with value: the delivering \
             process. Pale: the broker in addition."
                .to_owned(),
        ),
        (
            Some(charts::throughput(run)),
            "Total deliveries to all clients. The cross line marks the expected rate; a gap below \
             it is loss."
                .to_owned(),
        ),
        (
            charts::memory(run),
            "Growth of the delivering process’s resident memory per connected client, without \
             kernel socket buffers."
                .to_owned(),
        ),
        (
            charts::curve(run, levels),
            "Latency as throughput grows. Each point is one number of clients; the ring marks the \
             last sustained one."
                .to_owned(),
        ),
    ];
    let content = html! {
        div.grid2 { @for (svg, caption) in &all { @if let Some(svg) = svg {
            (chart(svg, caption))
        } } }
    };
    section("charts", "Latency and cost by number of clients", &content)
}

/// Returns the differences between clients.
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
    let headings = [
        "Clients",
        "architecture",
        &median,
        &worst,
        "received per client",
    ];
    let mut table = ReportTable::new(2, headings);
    for (row, it) in all {
        let received = match (it.deliveries_min, it.deliveries_max) {
            (fewest, most) if fewest == most => count(most),
            (fewest, most) => format!("{} to {}", count(fewest), count(most)),
        };
        let median = unit.show(it.client_p99_p50_us);
        let worst = unit.show(it.client_p99_max_us);
        table.row(
            "",
            [
                count(row.clients()),
                row.name.clone(),
                median,
                worst,
                received,
            ],
        );
    }
    let content = html! {
        div."grid2 pair" { (chart(&svg, caption)) (table) }
    };
    section("fairness", "Fairness between clients", &content)
}

/// Returns delivery totals, client errors and the SDK probes.
pub(crate) fn losses(run: &Run) -> Markup {
    let cells = view::cells(run);
    let mut errors = ReportTable::new(2, ["Cell", "error", "count"]);
    for cell in &cells {
        for (text, times) in cell.delivery.iter().flat_map(|it| &it.errors) {
            errors.row("", [&cell.id(), text, &count(*times)]);
        }
    }
    let has_probes = cells.iter().any(|cell| cell.probe.is_some());
    let content = html! {
        (shared::delivery(run))
        p.caption {
            "Every record due in the window carries a sequence number per key and producer; every \
             client checks that it receives each record once and in order. " b { "Conflated" }
            " records were replaced by a newer record before delivery, as the mode allows."
        }
        @if !errors.is_empty() { h3 { "Client errors" } (errors) }
        @if has_probes { h3 { "SDK client" } }
        @for cell in cells { @if let Some(it) = &cell.probe { (probe(&cell.id(), it)) } }
    };
    section("losses", "Delivery check", &content)
}

fn probe(cell: &str, it: &SdkProbe) -> Markup {
    let (class, word) = match it.ok {
        true => ("ok", "passed"),
        false => ("bad", "failed"),
    };
    html! { p.probe {
        span class={ "badge " (class) } { (word) } " " b { (cell) } " "
        (it.sdk) " " (it.version) ": " (count(it.updates)) " updates, " (count(it.lost)) " lost, "
        (count(it.duplicated)) " duplicated" (lateness(it)) ". "
        span.quiet { (it.status_changes.join(" → ")) }
    } "\n" }
}

/// Returns the highest percentile that the few updates of the probe support.
fn lateness(probe: &SdkProbe) -> String {
    let latency = probe.latency.as_ref();
    match latency.map(|it| (it.p99_us, it.max_us)) {
        Some((Some(us), _)) => format!(", p99 {}", format::duration_us(us)),
        Some((None, Some(us))) => format!(", max {}", format::duration_us(us)),
        _ => String::new(),
    }
}
