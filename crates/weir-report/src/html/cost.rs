//! Cost: servers and money by architecture, CPU time and memory by load, usage by process role.

use maud::{Markup, html};
use weir_stats::run::Run;

use super::details;
use super::element::{Section, chart, part};
use super::latency::published;
use crate::chart as charts;
use crate::cost;
use crate::view::{self, Level};

pub(crate) fn section(run: &Run, levels: &[Level<'_>]) -> Section {
    let (choices, servers) = (cost::table(run), cost::servers(run, levels));
    let choices = html! { @if !choices.is_empty() {
        div.live {} (choices) p.caption { (cost::CAPTION) }
    } };
    let servers = html! { @if !servers.is_empty() {
        (servers) p.caption { (cost::servers_caption()) }
    } };
    let content = html! {
        (part("decision", "Choice of an architecture", &choices))
        (part("servers", "Servers by subject", &servers))
        (part("cost-by-load", "By number of clients", &by_load(run, levels)))
        (details::usage(run))
    };
    Section::new("cost", "Cost", content)
}

fn by_load(run: &Run, levels: &[Level<'_>]) -> Markup {
    if !view::has_levels(run, levels) {
        return Markup::default();
    }
    let bandwidth = charts::clients::bandwidth(run, levels).map(|svg| {
        let note = match published(run, levels, |row| row.throughput_bit_per_s.is_some()) {
            true => " Pale with rings: published results from other hardware.",
            false => "",
        };
        let caption = format!("Data received by all clients, in bits. Lower is better.{note}");
        (svg, caption)
    });
    let own = charts::by_clients(run, levels).into_iter();
    let own = own.filter(|it| it.topic == charts::Topic::Cost);
    let own = own.filter_map(|it| Some((it.svg?, it.caption.to_owned())));
    let all: Vec<(String, String)> = own.chain(bandwidth).collect();
    html! { div.grid2 { @for (svg, caption) in &all { (chart(svg, caption)) } } }
}
