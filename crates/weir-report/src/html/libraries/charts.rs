//! Box plots of the repetitions, and distributions of round-trip times.

use maud::{Markup, html};
use weir_stats::libraries::CellView;
use weir_stats::run::{Distribution, LibrarySample};

use super::super::element::chart;
use crate::chart::{BoxOf, boxes, distribution, distribution_line};
use crate::format;
use crate::libraries::{Group, LibraryReport};

/// Returns one chart per value size, with a box for each library and burst size.
pub(super) fn spread(compared: &LibraryReport<'_>, group: &Group<'_>) -> Markup {
    let quantity = group.headline();
    let names = compared.all().map(|driver| driver.name.as_str());
    let series: Vec<(&str, &'static str)> = names.map(|name| (name, compared.slot(name))).collect();
    let places: Vec<String> = group.places.iter().map(|place| place.label()).collect();
    let x_title = match group.mode {
        "open" => "records per second",
        _ => "records",
    };
    let charts = group.payloads.iter().filter_map(|payload| {
        let mut all = Vec::new();
        for (index, place) in group.places.iter().enumerate() {
            let Some(view) = group.at(*place, *payload) else {
                continue;
            };
            for (number, (name, slot)) in series.iter().enumerate() {
                let figures = view.driver(name).and_then(|it| it.statistics(quantity));
                let Some(it) = figures else { continue };
                let us = format::duration_us;
                all.push(BoxOf {
                    place: index,
                    series: number,
                    slot,
                    five_us: [it.min, it.quartile_low, it.median, it.quartile_high, it.max],
                    tip: format!(
                        "{name}, {}: median {}, {} to {}, n {}",
                        view.cell.name,
                        us(it.median),
                        us(it.min),
                        us(it.max),
                        it.count
                    ),
                });
            }
        }
        let label = format!("{} bytes", format::count(*payload));
        let svg = boxes(&label, &places, x_title, &series, &all)?;
        let caption = format!("{}, {label}: {}.", group.title(), quantity.title);
        Some(chart(&svg, &caption))
    });
    charts_of("Spread of the repetitions", charts, Some(SPREAD_CAPTION))
}

/// Returns latency and schedule lag of all records of each cell, merged over the repetitions.
pub(super) fn latencies(compared: &LibraryReport<'_>, group: &Group<'_>) -> Markup {
    if compared.libraries.distributions_file.is_some() {
        // A warning says that the file is missing.
        return html! {};
    }
    let charts = group.cells.iter().flat_map(|view| {
        let name = &view.cell.name;
        let latency = merged(compared, view, |sample| sample.latency.as_ref());
        let pacing = merged(compared, view, |sample| sample.pacing.as_ref());
        let drawn = |quantity: &str, merged: &[(&str, Distribution)], caption: String| {
            let line = |(name, merged): &(&str, Distribution)| {
                distribution_line(name, compared.slot(name), &merged.curve(POINTS))
            };
            let lines: Vec<_> = merged.iter().map(line).collect();
            let svg = distribution(&format!("Distribution of {quantity}"), quantity, &lines)?;
            Some(chart(&svg, &caption))
        };
        let caption = format!("Latency, {name}: {}", tail(&latency));
        let lag = format!("Schedule lag, {name}: send time minus due time.");
        let latency = drawn("latency", &latency, caption).into_iter();
        latency.chain(drawn("schedule lag", &pacing, lag))
    });
    charts_of("Distribution over all records", charts, None)
}

fn charts_of(title: &str, charts: impl Iterator<Item = Markup>, caption: Option<&str>) -> Markup {
    let mut charts = charts.peekable();
    html! { @if charts.peek().is_some() {
        h4 { (title) } "\n"
        div class="grid2 many" { @for chart in charts { (chart) } } "\n"
        @if let Some(caption) = caption { p.caption { (caption) } }
    } }
}

/// Returns the distribution of each library over its repetitions, without empty ones.
fn merged<'a>(
    compared: &LibraryReport<'a>,
    view: &CellView<'a>,
    pick: fn(&LibrarySample) -> Option<&Distribution>,
) -> Vec<(&'a str, Distribution)> {
    let drivers = compared.all().filter_map(|driver| {
        let samples = view.driver(&driver.name)?.samples.iter();
        let merged = Distribution::merged(samples.filter_map(|sample| pick(sample)));
        (merged.count > 0).then_some((driver.name.as_str(), merged))
    });
    drivers.collect()
}

/// Number of points; enough for a smooth line at chart size.
const POINTS: usize = 50;
const SPREAD_CAPTION: &str = "Box: middle half of the repetitions. Line: median. Whiskers: minimum \
                              and maximum. Noisy repetitions are included, invalid ones are not.";

/// Returns percentiles of all libraries: `java p50 1.2 ms, p99 4 ms; ...`.
fn tail(merged: &[(&str, Distribution)]) -> String {
    let texts = merged.iter().filter_map(|(name, merged)| {
        let at = |percentile: f64| merged.supported_percentile_us(percentile);
        let p99 = at(99.0).map(|us| format!(", p99 {}", format::duration_us(us)));
        let p50 = format::duration_us(at(50.0)?);
        Some(format!("{name} p50 {p50}{}", p99.unwrap_or_default()))
    });
    format!("{}.", texts.collect::<Vec<_>>().join("; "))
}
