//! Charts by number of clients: latency as dot and whisker, cost as bars.

use weir_stats::run::Run;

use super::axis::Scale;
use super::plot::{LegendSymbol, Plot, tick, trimmed};
use super::style::{entries, slot};
use super::svg::Anchor;
use crate::format::{self, TimeUnit};
use crate::view::{self, Level, SubjectRow};

/// Share of a level's width that its marks occupy.
const BAND: f64 = 0.72;

/// Draws p50 as a dot, p99 as the end of a thick line, the maximum as the end of a thin line.
pub(crate) fn latency(run: &Run) -> String {
    let levels = view::levels(run);
    let values_us: Vec<f64> = rows(&levels)
        .flat_map(|row| [row.figures.p50_us, row.figures.p99_us, row.figures.max_us])
        .flatten()
        .collect();
    let (mut plot, unit) = time_plot("Latency by number of clients", "Latency", &values_us);
    frame(&mut plot, LegendSymbol::Dot, run, &levels);
    for (place, row) in places(run, &levels) {
        let figures = &row.figures;
        let (Some(p50_us), Some(max_us)) = (figures.p50_us, figures.max_us) else {
            continue;
        };
        let upper_us = figures.p99_us.unwrap_or(max_us);
        let x = plot.x(place);
        let class = slot(run, &row.name);
        let (low, p99, high) = (plot.y(p50_us), plot.y(upper_us), plot.y(max_us));
        plot.svg.line((x, p99), (x, high), &format!("thin {class}"));
        plot.svg.line((x, low), (x, p99), &format!("thick {class}"));
        plot.svg
            .line((x - 5.0, p99), (x + 5.0, p99), &format!("thick {class}"));
        let tip = format!(
            "{}: p50 {p50} {unit}, p99 {p99} {unit}, max {max} {unit}",
            row.name,
            p50 = unit.show(figures.p50_us),
            p99 = unit.show(figures.p99_us),
            max = unit.show(figures.max_us),
            unit = unit.name()
        );
        plot.svg
            .circle((x, low), 4.6, &format!("fill {class}"), &tip);
    }
    plot.finish()
}

/// Draws CPU time per delivered record: the delivering process solid, the broker pale.
pub(crate) fn cpu(run: &Run) -> String {
    let levels = view::levels(run);
    let y = Scale::from_zero(
        rows(&levels)
            .filter_map(|row| row.figures.cpu_us_servers.or(row.figures.cpu_us_delivering)),
    );
    let mut plot = Plot::new(
        "CPU time per delivered record",
        y,
        "CPU, µs per record",
        tick,
    );
    frame(&mut plot, LegendSymbol::Bar, run, &levels);
    for (place, row) in places(run, &levels) {
        let Some(own) = row.figures.cpu_us_delivering else {
            continue;
        };
        let servers = row.figures.cpu_us_servers.unwrap_or(own).max(own);
        let tip = format!(
            "{}: {} µs, including the broker {} µs",
            row.name,
            format::number(Some(own)),
            format::number(Some(servers))
        );
        let class = slot(run, &row.name);
        bar(
            &mut plot,
            place,
            (own, servers),
            &format!("pale {class}"),
            &tip,
            levels.len(),
        );
        bar(
            &mut plot,
            place,
            (0.0, own),
            &format!("bar {class}"),
            &tip,
            levels.len(),
        );
        let at = (plot.x(place), plot.y(servers) - 4.0);
        plot.svg
            .text(at, Anchor::Middle, "value", &format::number(Some(own)));
    }
    plot.finish()
}

/// Draws memory of the delivering process per client; returns `None` if it was not measured.
pub(crate) fn memory(run: &Run) -> Option<String> {
    let levels = view::levels(run);
    let value_kb = |row: &SubjectRow<'_>| {
        row.figures
            .memory_per_client_bytes
            .map(|bytes| bytes.max(0.0) / 1e3)
    };
    rows(&levels).find_map(value_kb)?;
    let y = Scale::from_zero(rows(&levels).filter_map(value_kb));
    let mut plot = Plot::new("Memory per client", y, "Memory, kB per client", tick);
    frame(&mut plot, LegendSymbol::Bar, run, &levels);
    for (place, row) in places(run, &levels) {
        let Some(kilobytes) = value_kb(row) else {
            continue;
        };
        let shown = format::number(Some(kilobytes));
        let tip = format!("{}: {shown} kB per client", row.name);
        let class = format!("bar {}", slot(run, &row.name));
        bar(
            &mut plot,
            place,
            (0.0, kilobytes),
            &class,
            &tip,
            levels.len(),
        );
        let at = (plot.x(place), plot.y(kilobytes) - 4.0);
        plot.svg.text(at, Anchor::Middle, "value", &shown);
    }
    Some(plot.finish())
}

/// Draws deliveries per second, with a line at the expected rate.
pub(crate) fn throughput(run: &Run) -> String {
    let levels = view::levels(run);
    let y = Scale::from_zero(rows(&levels).filter_map(|row| row.figures.expected_per_s));
    let mut plot = Plot::new("Deliveries per second", y, "Deliveries per second", tick);
    frame(&mut plot, LegendSymbol::Bar, run, &levels);
    for (place, row) in places(run, &levels) {
        let Some(delivered) = row.figures.delivered_per_s else {
            continue;
        };
        let class = slot(run, &row.name);
        let tip = format!(
            "{}: {} of {} expected deliveries per second",
            row.name,
            format::number(Some(delivered)),
            format::number(row.figures.expected_per_s)
        );
        bar(
            &mut plot,
            place,
            (0.0, delivered),
            &format!("bar {class}"),
            &tip,
            levels.len(),
        );
        if let Some(expected) = row.figures.expected_per_s {
            let (x, y) = (plot.x(place), plot.y(expected));
            plot.svg.line((x - 15.0, y), (x + 15.0, y), "due");
        }
    }
    plot.finish()
}

/// Creates a plot of latencies with a logarithmic axis in one unit. The axis title starts with
/// `quantity`.
pub(crate) fn time_plot(label: &str, quantity: &str, values_us: &[f64]) -> (Plot, TimeUnit) {
    let scale = Scale::log(values_us.iter().copied());
    let unit = TimeUnit::for_values_us(scale.ticks().into_iter());
    let title = format!("{quantity}, {}, log scale", unit.name());
    let plot = Plot::new(label, scale, &title, |us| trimmed(&unit.show(Some(us))));
    (plot, unit)
}

fn rows<'a>(levels: &'a [Level<'a>]) -> impl Iterator<Item = &'a SubjectRow<'a>> {
    levels.iter().flat_map(Level::valid)
}

fn frame(plot: &mut Plot, key: LegendSymbol, run: &Run, levels: &[Level<'_>]) {
    plot.legend(key, &entries(&view::subjects(run), run));
    for (index, level) in levels.iter().enumerate() {
        let place = (index as f64 + 0.5) / levels.len() as f64;
        plot.x_tick(place, &format::count(level.clients), false);
    }
    plot.x_title("clients");
}

/// Returns each valid row with its horizontal position, next to each other within a level.
fn places<'a>(run: &'a Run, levels: &'a [Level<'a>]) -> Vec<(f64, &'a SubjectRow<'a>)> {
    let names = view::subjects(run);
    let band = 1.0 / levels.len().max(1) as f64;
    let step = band * BAND / names.len().max(1) as f64;
    let mut placed = Vec::new();
    for (index, level) in levels.iter().enumerate() {
        for row in level.valid() {
            let order = names.iter().position(|name| *name == row.name).unwrap_or(0);
            let offset = (order as f64 - (names.len() as f64 - 1.0) / 2.0) * step;
            placed.push(((index as f64 + 0.5) * band + offset, row));
        }
    }
    placed
}

fn bar(
    plot: &mut Plot,
    place: f64,
    (low, high): (f64, f64),
    class: &str,
    tip: &str,
    levels: usize,
) {
    let width = (96.0 / levels.max(1) as f64).clamp(5.0, 26.0);
    let top = plot.y(high);
    let height = plot.y(low) - top;
    let at = (plot.x(place) - width / 2.0, top);
    plot.svg.rect(at, (width, height), class, tip);
}
