//! Deliveries: rate, losses, client errors and SDK clients.

use maud::{Markup, html};
use weir_stats::run::Run;

use super::element::{Section, chart, part};
use crate::chart as charts;
use crate::shared;
use crate::view::{self, Level};

pub(crate) fn section(run: &Run, levels: &[Level<'_>]) -> Section {
    let checks = shared::delivery(run);
    if checks.is_empty() {
        return Section::new("delivery", "Delivery", Markup::default());
    }
    let (errors, probes) = (shared::client_errors(run), shared::probes(run));
    let content = html! {
        (rates(run, levels))
        (checks)
        p.caption {
            "Every record due in the window carries a sequence number per key and producer; every \
             client checks that it receives each record once and in order. " b { "Conflated" }
            " records were replaced by a newer record before delivery, as the mode allows."
        }
        @if !errors.is_empty() { (part("errors", "Client errors", &html! { (errors) })) }
        @if !probes.is_empty() { (part("sdk", "SDK client", &html! {
            @for (ok, text) in &probes {
                @let (class, word) = if *ok { ("ok", "passed") } else { ("bad", "failed") };
                p.probe { span class={ "badge " (class) } { (word) } " " (text) } "\n"
            }
        })) }
    };
    Section::new("delivery", "Delivery", content)
}

/// Returns the chart of deliveries by number of clients, or a sentence if all subjects delivered
/// what was due.
fn rates(run: &Run, levels: &[Level<'_>]) -> Markup {
    let mut rows = levels.iter().flat_map(Level::valid).peekable();
    let has_rows = rows.peek().is_some();
    let is_short = rows.any(|row| {
        let figures = &row.figures;
        let due = figures.delivered_per_s.zip(figures.expected_per_s);
        due.is_some_and(|(delivered, expected)| delivered < expected * DELIVERED_SHARE)
    });
    let charts = charts::by_clients(run, levels).into_iter();
    let mut charts = charts.filter(|it| it.topic == charts::Topic::Delivery);
    html! {
        @if has_rows && !is_short {
            p { "Every subject delivered at the rate that was due, at every level with a result." }
        } @else if view::has_levels(run, levels) {
            @if let Some(it) = charts.next() {
                @if let Some(svg) = &it.svg { div.half { (chart(svg, it.caption)) } }
            }
        }
    }
}

/// Share of the due deliveries from which the rate counts as kept.
const DELIVERED_SHARE: f64 = 0.99;
