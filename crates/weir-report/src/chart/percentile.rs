//! Percentile plots as used with HdrHistogram: x is the number of nines, y is latency.

use std::collections::BTreeSet;

use weir_stats::Histogram;
use weir_stats::run::STAGE_RESPONSE;

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, draw, legend, xs, ys};
use super::plot::time_plot;
use super::style::{slot, stage_slot};
use crate::run_dir::RunData;
use crate::view::{Level, SubjectRow};

/// Points per nine; enough for a smooth curve in print.
const STEPS_PER_NINE: f64 = 20.0;
/// Largest number of nines drawn; no run has enough samples for more.
const NINES_MAX: f64 = 7.0;

/// One distribution, merged over all valid repetitions.
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Number of nines, in steps of 1/20 from 0, and latency in microseconds.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Curve {
    /// Returns one curve for each stage that has values.
    pub(crate) fn of_row(data: &RunData, row: &SubjectRow<'_>) -> Vec<Self> {
        let stages: BTreeSet<&String> = row
            .cells
            .iter()
            .flat_map(|cell| cell.latency.keys())
            .collect();
        let curves = stages.into_iter().filter_map(|name| {
            Some(Self {
                points: points(&merged(data, row, name)?),
                name: name.clone(),
            })
        });
        curves.filter(|curve| !curve.points.is_empty()).collect()
    }
}

fn merged(data: &RunData, row: &SubjectRow<'_>, stage: &str) -> Option<Histogram> {
    let mut merged = Histogram::new();
    for cell in row.cells.iter().filter(|cell| cell.is_valid()) {
        if let Some(histogram) = data.histogram(cell, stage) {
            merged.merge(histogram);
        }
    }
    (!merged.is_empty()).then_some(merged)
}

/// Draws the response time of every subject at one level; returns `None` without raw histograms.
pub(crate) fn percentiles(data: &RunData, level: &Level<'_>) -> Option<String> {
    let lines = level.valid().filter_map(|row| {
        let points = points(&merged(data, row, STAGE_RESPONSE)?);
        Some(series(
            row.name.clone(),
            slot(&data.run, &row.name),
            &points,
        ))
    });
    chart("Response time by percentile", &lines.collect::<Vec<_>>())
}

/// Draws all stages of one subject; returns `None` unless there are several.
pub(crate) fn stages(data: &RunData, row: &SubjectRow<'_>) -> Option<String> {
    let curves = Curve::of_row(data, row).into_iter();
    let lines =
        curves.map(|it| series(it.name.replace('_', " "), stage_slot(&it.name), &it.points));
    let lines: Vec<Series> = lines.collect();
    (lines.len() > 1).then(|| chart("Stages by percentile", &lines))?
}

fn series(name: String, slot: &'static str, points: &[(f64, f64)]) -> Series {
    Series {
        name,
        slot,
        style: LineStyle::Plain,
        points: ChartPoint::plain(points),
    }
}

fn chart(label: &str, lines: &[Series]) -> Option<String> {
    let nines = xs(lines).reduce(f64::max)?.max(1.5);
    let (mut plot, _) = time_plot(label, "Latency", &ys(lines).collect::<Vec<_>>());
    legend(&mut plot, lines);
    let ticks = TICKS.iter().filter(|(_, at)| *at <= nines + 1e-9);
    let x = XAxis {
        title: "percentile (each grid line: ten times fewer records above it)",
        scale: Scale::between(0.0, nines),
        ticks: ticks.map(|(text, at)| (*at, (*text).to_owned())).collect(),
        grid: true,
    };
    Some(draw(plot, &x, lines))
}

const TICKS: [(&str, f64); 8] = [
    ("0", 0.0),
    ("50", std::f64::consts::LOG10_2),
    ("90", 1.0),
    ("99", 2.0),
    ("99.9", 3.0),
    ("99.99", 4.0),
    ("99.999", 5.0),
    ("99.9999", 6.0),
];

/// Returns the number of nines and the latency in microseconds, up to the last percentile with
/// enough samples.
fn points(histogram: &Histogram) -> Vec<(f64, f64)> {
    let steps = (NINES_MAX * STEPS_PER_NINE) as u32;
    (0..=steps)
        .map_while(|step| {
            let nines = f64::from(step) / STEPS_PER_NINE;
            let percentile = 100.0 * (1.0 - 10_f64.powf(-nines));
            let value_ns = histogram.supported_percentile_ns(percentile)?;
            Some((nines, (value_ns as f64 / 1e3).max(0.001)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_ends_at_last_supported_percentile() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_000_000, 299);
        let nines = points(&histogram).last().unwrap().0;
        assert!((nines - 2.0).abs() < 0.01, "{nines}");
    }
}
