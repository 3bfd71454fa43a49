//! Percentile plots as used with HdrHistogram: x is the number of nines, y is latency.

use std::collections::BTreeSet;

use weir_stats::Histogram;
use weir_stats::run::{Run, STAGE_RESPONSE};

use super::axis::Scale;
use super::levels::time_plot;
use super::plot::LegendSymbol;
use super::style::{slot, stage_slot};
use crate::run_dir::RunData;
use crate::view::{Level, SubjectRow};

/// Points per nine; enough for a smooth curve in print.
const STEPS_PER_NINE: f64 = 20.0;
/// Largest number of nines drawn; no run has enough samples for more.
const NINES_MAX: f64 = 7.0;

/// One distribution, merged over all valid repetitions.
pub(crate) struct Curve {
    /// Name of the stage.
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
    let run: &Run = &data.run;
    let lines: Vec<PercentileSeries<'_>> = level
        .valid()
        .filter_map(|row| {
            Some(PercentileSeries {
                name: &row.name,
                slot: slot(run, &row.name),
                points: points(&merged(data, row, STAGE_RESPONSE)?),
            })
        })
        .collect();
    draw("Response time by percentile", &lines)
}

/// Draws all stages of one subject; returns `None` if only the response time is known.
pub(crate) fn stages(data: &RunData, row: &SubjectRow<'_>) -> Option<String> {
    let curves = Curve::of_row(data, row);
    let names: Vec<String> = curves
        .iter()
        .map(|curve| curve.name.replace('_', " "))
        .collect();
    let lines: Vec<PercentileSeries<'_>> = names
        .iter()
        .zip(&curves)
        .map(|(name, curve)| PercentileSeries {
            name,
            slot: stage_slot(&curve.name),
            points: curve.points.clone(),
        })
        .collect();
    (lines.len() > 1).then(|| draw("Stages by percentile", &lines))?
}

struct PercentileSeries<'a> {
    name: &'a str,
    slot: &'static str,
    points: Vec<(f64, f64)>,
}

fn draw(label: &str, lines: &[PercentileSeries<'_>]) -> Option<String> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let nines = all().map(|(nines, _)| *nines).reduce(f64::max)?.max(1.5);
    let values_us: Vec<f64> = all().map(|(_, us)| *us).collect();
    let (mut plot, _) = time_plot(label, "Latency", &values_us);
    let entries: Vec<_> = lines.iter().map(|line| (line.name, line.slot)).collect();
    plot.legend(LegendSymbol::Line, &entries);
    let x = Scale::between(0.0, nines);
    for (percentile, at) in TICKS.iter().filter(|(_, at)| *at <= nines + 1e-9) {
        plot.x_tick(x.fraction(*at), percentile, true);
    }
    plot.x_title("percentile (each grid line: ten times fewer records above it)");
    for line in lines {
        let places: Vec<_> = line
            .points
            .iter()
            .map(|(at, us)| (plot.x(x.fraction(*at)), plot.y(*us)))
            .collect();
        plot.svg.path(&places, &format!("line {}", line.slot));
    }
    Some(plot.finish())
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

/// Returns number of nines and latency in microseconds, up to the last percentile with enough
/// samples.
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
