//! Latency as a function of throughput, with a mark at the knee of each curve.

use weir_stats::run::Run;

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, connected, draw, legend, xs, ys};
use super::plot::time_plot;
use super::style::slot;
use crate::format;
use crate::view::{self, Level, RowStatus, SubjectRow};

/// Draws one curve per subject; returns `None` if no subject has three loads.
pub(crate) fn curve(run: &Run, levels: &[Level<'_>]) -> Option<String> {
    let mut lines = Vec::new();
    for name in view::subjects(run) {
        let rows = levels
            .iter()
            .flat_map(|level| level.rows.iter().map(move |row| (level, row)));
        let mut rows: Vec<(&SubjectRow<'_>, String, f64)> = rows
            .filter(|(_, row)| row.name == name)
            .filter_map(|(level, row)| {
                // An invalid load interrupts the line where it was to be.
                let per_s = match row.state {
                    RowStatus::Valid => row.figures.delivered_per_s,
                    _ => row.figures.expected_per_s,
                };
                Some((row, level.label(), per_s.filter(|per_s| *per_s > 0.0)?))
            })
            .collect();
        rows.sort_by(|a, b| a.2.total_cmp(&b.2));
        let is_valid = |(row, ..): &&(&SubjectRow<'_>, _, _)| row.state == RowStatus::Valid;
        if rows.iter().filter(is_valid).count() < 3 {
            continue;
        }
        // The last load before the first that was not sustained.
        let first_beyond = rows.iter().position(|(row, ..)| row.limit().is_some());
        let knee = first_beyond.and_then(|index| index.checked_sub(1));
        for (quantile, style) in [("p99", LineStyle::Marked), ("p50", LineStyle::Secondary)] {
            let points = rows.iter().enumerate().map(|(index, (row, label, per_s))| {
                let us = match style {
                    _ if row.state != RowStatus::Valid => None,
                    LineStyle::Secondary => row.figures.p50_us,
                    _ => row.figures.p99_us.or(row.figures.mean_us),
                }?;
                let (rate, time) = (format::number(Some(*per_s)), format::duration_us(us));
                let tip = format!("{name}, {label}: {rate} deliveries/s, {quantile} {time}");
                Some(ChartPoint {
                    is_knee: style == LineStyle::Marked && knee == Some(index),
                    ..ChartPoint::new(*per_s, us, tip)
                })
            });
            lines.push(Series {
                name: name.clone(),
                slot: slot(run, &name),
                style,
                points: connected(points),
            });
        }
    }
    let values_us: Vec<f64> = ys(&lines).collect();
    values_us.first()?;
    let (mut plot, _) = time_plot("Latency by throughput", "p99 (p50 dotted)", &values_us);
    legend(&mut plot, &lines);
    let x = XAxis::new("deliveries per second, log scale", Scale::log(xs(&lines)));
    Some(draw(plot, &x, &lines))
}
