//! Box plots of the repetitions, and distributions of round-trip times.

use std::fmt::Write as _;

use weir_stats::libraries::{CellView, DriverView};
use weir_stats::run::Distribution;

use super::super::element::figure;
use crate::chart::{BoxOf, DistributionLine, boxes, distribution};
use crate::format;
use crate::libraries::{Group, LibraryReport};

/// Writes one chart per value size, with a box for each library and burst size.
pub(super) fn spread(out: &mut String, compared: &LibraryReport<'_>, group: &Group<'_>) {
    let quantity = group.headline();
    let series: Vec<(&str, &'static str)> = compared
        .first
        .iter()
        .chain(&compared.others)
        .map(|driver| (driver.name.as_str(), compared.slot(&driver.name)))
        .collect();
    let places: Vec<String> = group.places.iter().map(|place| place.label()).collect();
    let x_title = match group.mode {
        "open" => "records per second",
        _ => "records",
    };
    let mut charts = String::new();
    for payload in &group.payloads {
        let mut all = Vec::new();
        for (index, place) in group.places.iter().enumerate() {
            let Some(view) = group.at(*place, *payload) else {
                continue;
            };
            for (number, (name, slot)) in series.iter().enumerate() {
                let figures = view.driver(name).and_then(|it| it.statistics(quantity));
                let Some(it) = figures else { continue };
                all.push(BoxOf {
                    place: index,
                    series: number,
                    slot,
                    five_us: [it.min, it.quartile_low, it.median, it.quartile_high, it.max],
                    tip: format!(
                        "{name}, {}: median {}, {} to {}, n {}",
                        view.cell.name,
                        format::duration_us(it.median),
                        format::duration_us(it.min),
                        format::duration_us(it.max),
                        it.count
                    ),
                });
            }
        }
        let label = format!("{} bytes", format::count(*payload));
        if let Some(svg) = boxes(&label, &places, x_title, &series, &all) {
            figure(
                &mut charts,
                &svg,
                "",
                &format!("{}, {label}: {}.", group.title(), quantity.title),
            );
        }
    }
    if !charts.is_empty() {
        let _ = writeln!(
            out,
            "<h4>Spread of the repetitions</h4>\n<div class=\"grid2 many\">\n{charts}</div>\n\
             <p class=\"caption\">Box: middle half of the repetitions. Line: median. Whiskers: \
             minimum and maximum. Noisy repetitions are included, invalid ones are not.</p>"
        );
    }
}

/// Writes latency and schedule lag of all records of each cell, merged over the repetitions.
pub(super) fn latencies(out: &mut String, compared: &LibraryReport<'_>, group: &Group<'_>) {
    if group.work != "roundtrip" {
        return;
    }
    let mut charts = String::new();
    for view in &group.cells {
        let latency = lines(compared, view, |driver| {
            driver
                .samples
                .iter()
                .filter_map(|it| it.latency.as_ref())
                .collect()
        });
        let pacing = lines(compared, view, |driver| {
            driver
                .samples
                .iter()
                .filter_map(|it| it.pacing.as_ref())
                .collect()
        });
        let name = &view.cell.name;
        if let Some(svg) = distribution("Distribution of latency", "latency", &latency) {
            figure(
                &mut charts,
                &svg,
                "",
                &format!("Latency, {name}: {}", tail(compared, view)),
            );
        }
        if let Some(svg) = distribution("Distribution of schedule lag", "schedule lag", &pacing) {
            figure(
                &mut charts,
                &svg,
                "",
                &format!("Schedule lag, {name}: send time minus due time."),
            );
        }
    }
    if !charts.is_empty() {
        let _ = writeln!(
            out,
            "<h4>Distribution over all records</h4>\n<div class=\"grid2 many\">\n{charts}</div>"
        );
    }
}

fn lines<'a>(
    compared: &'a LibraryReport<'_>,
    view: &'a CellView<'_>,
    pick: impl for<'b> Fn(&'b DriverView<'_>) -> Vec<&'b Distribution>,
) -> Vec<DistributionLine<'a>> {
    let drivers = compared.first.iter().chain(&compared.others);
    drivers
        .filter_map(|driver| {
            let merged = Distribution::merged(pick(view.driver(&driver.name)?));
            let points = merged.curve(POINTS);
            (!points.is_empty()).then_some(DistributionLine {
                name: &driver.name,
                slot: compared.slot(&driver.name),
                points,
            })
        })
        .collect()
}

/// Number of points; enough for a smooth line at chart size.
const POINTS: usize = 50;

/// Returns percentiles of all libraries: `java p50 1.2 ms, p99 4 ms; ...`.
fn tail(compared: &LibraryReport<'_>, view: &CellView<'_>) -> String {
    let drivers = compared.first.iter().chain(&compared.others);
    let texts: Vec<String> = drivers
        .filter_map(|driver| {
            let samples = &view.driver(&driver.name)?.samples;
            let all = samples.iter().filter_map(|it| it.latency.as_ref());
            let merged = Distribution::merged(all);
            let at = |percentile: f64| merged.supported_percentile_us(percentile);
            let mut text = format!("{} p50 {}", driver.name, format::duration_us(at(50.0)?));
            if let Some(us) = at(99.0) {
                let _ = write!(text, ", p99 {}", format::duration_us(us));
            }
            Some(text)
        })
        .collect();
    format!("{}.", texts.join("; "))
}
