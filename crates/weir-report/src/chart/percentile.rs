//! The percentile plot that HdrHistogram users know: x counts nines, y is latency.

use weir_stats::Histogram;
use weir_stats::run::{Run, STAGE_RESPONSE};

use super::axis::Scale;
use super::levels::time_plot;
use super::plot::Key;
use super::slot;
use crate::folder::RunData;
use crate::view::Level;

/// Points per nine: fine enough that a curve looks smooth at print size.
const STEPS_PER_NINE: f64 = 20.0;
/// Beyond this no run has samples.
const NINES_MAX: f64 = 7.0;

/// Response latency of every architecture at one level; `None` without raw histograms.
pub(crate) fn percentiles(data: &RunData, level: &Level<'_>) -> Option<String> {
    let run: &Run = &data.run;
    let curves: Vec<(&str, Vec<(f64, f64)>)> = level
        .valid()
        .filter_map(|row| {
            let mut merged = Histogram::new();
            for cell in row.cells.iter().filter(|cell| cell.is_valid()) {
                if let Some(histogram) = data.histogram(cell, STAGE_RESPONSE) {
                    merged.merge(histogram);
                }
            }
            (!merged.is_empty()).then(|| (row.architecture, curve(&merged)))
        })
        .collect();
    let points = || curves.iter().flat_map(|(_, points)| points);
    let nines = points().map(|(nines, _)| *nines).reduce(f64::max)?.max(1.5);
    let values_us: Vec<f64> = points().map(|(_, us)| *us).collect();
    let (mut plot, _) = time_plot("Response latency by percentile", "Latency", &values_us);
    let entries: Vec<_> = curves
        .iter()
        .map(|(name, _)| (*name, slot(run, name)))
        .collect();
    plot.legend(Key::Line, &entries);
    let x = Scale::between(0.0, nines);
    for (percentile, at) in TICKS.iter().filter(|(_, at)| *at <= nines + 1e-9) {
        plot.x_tick(x.place(*at), percentile, true);
    }
    plot.x_title("percentile; each line is ten times rarer than the last");
    for (name, points) in &curves {
        let places: Vec<_> = points
            .iter()
            .map(|(at, us)| (plot.x(x.place(*at)), plot.y(*us)))
            .collect();
        plot.svg.path(&places, &format!("line {}", slot(run, name)));
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

/// Nines and latency in microseconds, up to the last percentile that has enough samples.
fn curve(histogram: &Histogram) -> Vec<(f64, f64)> {
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
    fn the_curve_ends_where_samples_are_too_few() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_000_000, 299);
        let nines = curve(&histogram).last().unwrap().0;
        assert!((nines - 2.0).abs() < 0.01, "{nines}");
    }
}
