//! Latency as a function of throughput, with a mark at the knee of each curve.

use weir_stats::run::Run;

use super::levels::time_plot;
use super::lines::{ChartPoint, Series, XAxis, draw};
use super::plot::tick;
use super::style::slot;
use crate::format;
use crate::view::{self, Level, SubjectRow};

/// Draws one curve per subject; returns `None` if no subject has three loads.
pub(crate) fn curve(run: &Run, levels: &[Level<'_>]) -> Option<String> {
    let mut lines = Vec::new();
    for name in view::subjects(run) {
        let mut rows: Vec<(&SubjectRow<'_>, String, f64)> = levels
            .iter()
            .flat_map(|level| level.valid().map(move |row| (level, row)))
            .filter(|(_, row)| row.name == name)
            .filter_map(|(level, row)| Some((row, level.label(), throughput(row)?)))
            .collect();
        rows.sort_by(|a, b| a.2.total_cmp(&b.2));
        if rows.len() < 3 {
            continue;
        }
        let knee = knee(&rows);
        for (quantile, is_secondary) in [("p99", false), ("p50", true)] {
            let points = rows
                .iter()
                .enumerate()
                .filter_map(|(index, (row, label, per_s))| {
                    let us = match is_secondary {
                        true => row.figures.p50_us,
                        false => row.figures.p99_us.or(row.figures.mean_us),
                    }?;
                    let tip = format!(
                        "{name}, {label}: {} deliveries/s, {quantile} {}",
                        format::number(Some(*per_s)),
                        format::duration_us(us)
                    );
                    Some(ChartPoint {
                        x: *per_s,
                        y: us,
                        tip,
                        is_knee: !is_secondary && knee == Some(index),
                    })
                });
            lines.push(Series {
                name: name.clone(),
                slot: slot(run, &name),
                is_secondary,
                points: points.collect(),
            });
        }
    }
    let values_us: Vec<f64> = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.y)
        .collect();
    if values_us.is_empty() {
        return None;
    }
    let (plot, _) = time_plot("Latency by throughput", "p99 (p50 dotted)", &values_us);
    let x = XAxis {
        title: "deliveries per second, log scale",
        log: true,
        show: &tick,
        at_values: false,
    };
    Some(draw(plot, &x, &lines))
}

fn throughput(row: &SubjectRow<'_>) -> Option<f64> {
    let per_s = row.figures.delivered_per_s?;
    (per_s > 0.0).then_some(per_s)
}

/// Returns the index of the last load before the first that was not sustained.
fn knee(rows: &[(&SubjectRow<'_>, String, f64)]) -> Option<usize> {
    let first_beyond = rows.iter().position(|(row, ..)| row.limit().is_some())?;
    first_beyond.checked_sub(1)
}
