//! Charts and checks between the comparison and the configuration.

use std::fmt::Write as _;

use weir_stats::run::{Cell, ReferenceRow, Run, SdkProbe};

use super::element::{HtmlTable, figure};
use crate::chart;
use crate::escape::Markup;
use crate::format::{self, TimeUnit};
use crate::view::{self, Level};

/// Writes latency, CPU and memory by level.
pub(crate) fn cost_charts(out: &mut String, run: &Run) {
    out.push_str(
        "<section id=\"charts\">\n<h2>Latency and cost by number of clients</h2>\n\
         <div class=\"grid2\">\n",
    );
    over_clients(out, run);
    figure(
        out,
        &chart::latency(run),
        "",
        "Dot: p50. Crossbar: p99. Thin line: up to the maximum. Lower is better. Logarithmic \
         scale: each grid step is a factor.",
    );
    figure(
        out,
        &chart::cpu(run),
        "",
        "CPU time per record delivered to one client. Solid, with value: the delivering process. \
         Pale: the broker in addition.",
    );
    figure(
        out,
        &chart::throughput(run),
        "",
        "Total deliveries to all clients. The cross line marks the expected rate; a gap below it \
         is loss.",
    );
    if let Some(svg) = chart::memory(run) {
        figure(
            out,
            &svg,
            "",
            "Growth of the delivering process’s resident memory per connected client, without \
             kernel socket buffers.",
        );
    }
    if let Some(svg) = chart::curve(run, &view::levels(run)) {
        figure(
            out,
            &svg,
            "",
            "Latency as throughput grows. Each point is one number of clients; the ring marks the \
             last sustained one.",
        );
    }
    out.push_str("</div>\n</section>\n");
}

/// Writes the charts of the published test with results of this run.
fn over_clients(out: &mut String, run: &Run) {
    let published = |has: fn(&ReferenceRow) -> bool| {
        let rows = run.reference.iter().flat_map(|reference| &reference.rows);
        match rows.clone().any(has) {
            true => " Pale with rings: published results from other hardware.",
            false => "",
        }
    };
    let charts = [
        (
            chart::clients::latency(run),
            "Mean latency of all deliveries.",
            published(|row| row.latency_mean_ms.is_some()),
        ),
        (
            chart::clients::bandwidth(run),
            "Data received by all clients, in bits.",
            published(|row| row.throughput_bit_per_s.is_some()),
        ),
    ];
    for (svg, caption, theirs) in charts {
        if let Some(svg) = svg {
            figure(out, &svg, "", &format!("{caption}{theirs}"));
        }
    }
}

/// Writes the differences between clients.
pub(crate) fn fairness(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    let Some(svg) = chart::fairness(run) else {
        return;
    };
    out.push_str(
        "<section id=\"fairness\">\n<h2>Fairness between clients</h2>\n<div class=\"grid2 \
         pair\">\n",
    );
    figure(
        out,
        &svg,
        "",
        "Distribution of the p99 of single clients. Dot: median client. Thick line: up to the 90th \
         percentile. Thin line: best to worst client.",
    );
    let all = || {
        levels
            .iter()
            .flat_map(Level::valid)
            .filter_map(|row| Some((row, row.sample()?)))
    };
    let medians_us = all().filter_map(|(_, cell)| cell.fairness?.client_p99_p50_us);
    let unit = TimeUnit::for_values_us(medians_us);
    let heading = |name: &str| format!("{name}, {}", unit.name());
    let headings = [heading("median p99"), heading("worst p99")];
    let mut table = HtmlTable::new(
        2,
        &[
            "Clients",
            "architecture",
            &headings[0],
            &headings[1],
            "received per client",
        ],
    );
    for (row, cell) in all() {
        let Some(fair) = cell.fairness else { continue };
        let received = match (fair.deliveries_min, fair.deliveries_max) {
            (fewest, most) if fewest == most => format::count(most),
            (fewest, most) => format!("{} to {}", format::count(fewest), format::count(most)),
        };
        table.row(
            "",
            &[
                format::count(cell.clients),
                row.name.clone(),
                unit.show(fair.client_p99_p50_us),
                unit.show(fair.client_p99_max_us),
                received,
            ],
        );
    }
    table.finish(out);
    out.push_str("</div>\n</section>\n");
}

/// Writes delivery totals, client errors and the SDK probes.
pub(crate) fn losses(out: &mut String, run: &Run) {
    out.push_str("<section id=\"losses\">\n<h2>Delivery check</h2>\n");
    let headings = [
        "Cell",
        "expected",
        "delivered",
        "lost",
        "duplicated",
        "reordered",
        "conflated",
        "unchecked",
        "disconnects",
    ];
    let mut table = HtmlTable::new(1, &headings);
    for cell in view::cells(run) {
        let Some(delivery) = &cell.delivery else {
            continue;
        };
        let fields: Vec<String> = std::iter::once(cell.id())
            .chain(view::delivery_counts(delivery).map(format::count))
            .collect();
        let is_faulty = delivery.lost + delivery.duplicated + delivery.reordered > 0;
        let class = match (cell.is_valid(), is_faulty) {
            (false, _) => "invalid",
            (true, true) => "marked",
            (true, false) => "",
        };
        table.row(class, &fields);
    }
    table.finish(out);
    out.push_str(
        "<p class=\"caption\">Every record due in the window carries a sequence number per key and \
         producer; every client checks that it receives each record once and in order. \
         <b>Conflated</b> records were replaced by a newer record before delivery, as the mode \
         allows.</p>\n",
    );
    errors(out, run);
    probes(out, run);
    out.push_str("</section>\n");
}

fn errors(out: &mut String, run: &Run) {
    let found = || {
        view::cells(run)
            .into_iter()
            .flat_map(|cell| cell.delivery.iter().map(move |delivery| (cell, delivery)))
            .flat_map(|(cell, delivery)| delivery.errors.iter().map(move |error| (cell, error)))
    };
    if found().next().is_none() {
        return;
    }
    out.push_str("<h3>Client errors</h3>\n");
    let mut table = HtmlTable::new(2, &["Cell", "error", "count"]);
    for (cell, (text, count)) in found() {
        table.row("", &[cell.id(), text.clone(), format::count(*count)]);
    }
    table.finish(out);
}

fn probes(out: &mut String, run: &Run) {
    let cells = view::cells(run).into_iter();
    let found: Vec<(&Cell, &SdkProbe)> = cells
        .filter_map(|cell| Some((cell, cell.probe.as_ref()?)))
        .collect();
    if found.is_empty() {
        return;
    }
    out.push_str("<h3>SDK client</h3>\n");
    for (cell, probe) in found {
        let (class, word) = if probe.ok {
            ("ok", "passed")
        } else {
            ("bad", "failed")
        };
        let late = lateness(probe);
        let states = probe.status_changes.join(" → ");
        let _ = writeln!(
            out,
            concat!(
                "<p class=\"probe\"><span class=\"badge {}\">{}</span> <b>{}</b> {} {}: {} \
                 updates, ",
                "{} lost, {} duplicated{}. <span class=\"quiet\">{}</span></p>"
            ),
            class,
            word,
            Markup(&cell.id()),
            Markup(&probe.sdk),
            Markup(&probe.version),
            format::count(probe.updates),
            format::count(probe.lost),
            format::count(probe.duplicated),
            Markup(&late),
            Markup(&states)
        );
    }
}

/// Returns the highest percentile that the few updates of the probe support.
fn lateness(probe: &SdkProbe) -> String {
    let Some(latency) = &probe.latency else {
        return String::new();
    };
    match (latency.p99_us, latency.max_us) {
        (Some(us), _) => format!(", p99 {}", format::duration_us(us)),
        (None, Some(us)) => format!(", max {}", format::duration_us(us)),
        (None, None) => String::new(),
    }
}
