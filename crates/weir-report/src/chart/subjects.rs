//! Throughput of subjects, one mark per repetition.

use weir_stats::run::{Repetitions, Run};

use super::axis::Scale;
use super::plot::{Plot, tick};
use super::style::slot;
use crate::format;
use crate::proxies;

/// Caption of the chart.
pub(crate) const THROUGHPUT_CAPTION: &str = "Records per second at the maximum rate. Dots: \
                                             repetitions. Line: geometric mean. Higher is better.";

/// Draws the repetitions of each subject of a comparison of proxies; `None` for other runs.
pub(crate) fn throughput_by_subject(run: &Run) -> Option<String> {
    let subjects = proxies::at_maximum_rate(run);
    let rates = |it: &Repetitions<'_>| -> Vec<f64> {
        let cells = it.valid();
        cells
            .filter_map(|cell| cell.figures.get(proxies::RATE).copied())
            .collect()
    };
    let all: Vec<f64> = subjects.iter().flat_map(rates).collect();
    all.first()?;
    let scale = Scale::from_zero(all.into_iter());
    let mut plot = Plot::new("Throughput by subject", scale, "records per second", tick);
    let band = 1.0 / subjects.len() as f64;
    for (index, it) in subjects.iter().enumerate() {
        let (cell, middle) = (it.cells[0], (index as f64 + 0.5) * band);
        let name = cell.variant.as_deref().unwrap_or_default();
        let class = slot(run, &cell.name());
        plot.x_tick(middle, name, false);
        let own = rates(it);
        for (place, rate) in own.iter().enumerate() {
            // Repetitions next to each other, in order.
            let offset = (place as f64 + 0.5) / own.len() as f64 - 0.5;
            let at = (plot.x(middle + offset * band * 0.5), plot.y(*rate));
            let tip = format!("{name}: {} records/s", format::number(Some(*rate)));
            plot.svg.circle(at, 3.0, &format!("fill {class}"), &tip);
        }
        if let Some(mean) = proxies::figure(it, proxies::RATE) {
            let (left, right) = (plot.x(middle - band * 0.32), plot.x(middle + band * 0.32));
            let y = plot.y(mean);
            plot.svg
                .line((left, y), (right, y), &format!("thick {class}"));
        }
    }
    plot.x_title("subject");
    Some(plot.finish())
}
