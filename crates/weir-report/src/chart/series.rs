//! Charts over time, one line per architecture.

use weir_stats::run::{Cell, Run, SeriesPoint};

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, connected, draw, legend, xs, ys};
use super::plot::{Plot, tick, time_plot, trimmed};
use super::style::slot;
use crate::format::{self, TimeUnit};
use crate::view::{Level, SubjectRow};

pub(crate) struct SeriesQuantity {
    label: &'static str,
    /// Start of the title of the vertical axis.
    title: &'static str,
    axis: Axis,
    pub(crate) caption: &'static str,
    /// Returns the value of a second; the role is that of the delivering process.
    pick: fn(&SeriesPoint, &str) -> Option<f64>,
}

#[derive(Clone, Copy)]
enum Axis {
    LogTime,
    Time,
    Number,
}

pub(crate) const QUANTITIES: [SeriesQuantity; 4] = [
    SeriesQuantity {
        label: "p99 per second",
        title: "p99",
        axis: Axis::LogTime,
        caption: "99th percentile of the deliveries in each second.",
        pick: |point, _| point.p99_us,
    },
    SeriesQuantity {
        label: "Deliveries per second",
        title: "Deliveries per second",
        axis: Axis::Number,
        caption: "Deliveries to all clients per second.",
        pick: |point, _| point.delivered_per_s,
    },
    SeriesQuantity {
        label: "CPU usage of the delivering process",
        title: "CPU, cores",
        axis: Axis::Number,
        caption: "Cores used by the gateway or floor, or by the broker if clients read from it \
                  directly.",
        pick: |point, role| point.cpu_cores.get(role).copied(),
    },
    SeriesQuantity {
        label: "Schedule lag",
        title: "Schedule lag p99",
        axis: Axis::Time,
        caption: "Send time minus due time, p99 per second.",
        pick: |point, _| point.lag_p99_us,
    },
];

/// Maximum number of points; longer series keep the largest value of each group.
const POINTS_MAX: usize = 300;
pub(crate) const SECONDS: &str = "seconds since start of the measured window";

/// A quantity over time.
pub(crate) enum OverTime {
    Chart(String),
    /// The value of all seconds of all subjects, in words.
    Constant(String),
}

/// Draws one quantity over time at one level, with the disturbed seconds as bands; returns `None`
/// if it was not recorded.
pub(crate) fn over_time(
    run: &Run,
    level: &Level<'_>,
    quantity: &SeriesQuantity,
) -> Option<OverTime> {
    let samples = level
        .valid()
        .filter_map(|row| Some((row, row.representative()?)));
    let samples: Vec<(&SubjectRow<'_>, &Cell)> = samples.collect();
    let lines = samples.iter().map(|(row, cell)| Series {
        name: row.name.clone(),
        slot: slot(run, &row.name),
        style: LineStyle::Plain,
        points: points(cell, quantity),
    });
    let lines: Vec<Series> = lines.filter(|line| line.points.len() > 1).collect();
    let first_s = xs(&lines).reduce(f64::min)?;
    let last_s = xs(&lines).reduce(f64::max)?;
    if let Some(value) = constant(&lines) {
        let text = match quantity.axis {
            Axis::Number => format::number(Some(value)),
            Axis::LogTime | Axis::Time => format::duration_us(value),
        };
        return Some(OverTime::Constant(format!("{} {text}", quantity.label)));
    }
    let mut plot = frame(quantity, &ys(&lines).collect::<Vec<_>>());
    let x = XAxis::new(SECONDS, Scale::between(first_s, last_s));
    let cells: Vec<&Cell> = samples.iter().map(|(_, cell)| *cell).collect();
    for (from_s, until_s) in disturbed(&cells) {
        let [from, until] = [from_s, until_s].map(|s| x.scale.fraction(s));
        plot.band(from, until, "noise", "disturbed");
    }
    legend(&mut plot, &lines);
    Some(OverTime::Chart(draw(plot, &x, &lines)))
}

/// Returns the spans in which any of the cells was disturbed, without overlaps.
pub(crate) fn disturbed(cells: &[&Cell]) -> Vec<(f64, f64)> {
    let spans = cells.iter().flat_map(|cell| &cell.noisy);
    let mut spans: Vec<(f64, f64)> = spans.map(|span| (span.from_s, span.until_s)).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for (from_s, until_s) in spans {
        match merged.last_mut() {
            Some(last) if from_s <= last.1 => last.1 = last.1.max(until_s),
            _ => merged.push((from_s, until_s)),
        }
    }
    merged
}

/// Returns the mean if no value differs from it noticeably.
fn constant(lines: &[Series]) -> Option<f64> {
    let low = ys(lines).reduce(f64::min)?;
    let high = ys(lines).reduce(f64::max)?;
    (high - low <= high.abs() * CONSTANT_SHARE).then(|| f64::midpoint(low, high))
}

/// Largest difference between values that a chart would show as one flat line.
const CONSTANT_SHARE: f64 = 0.02;

fn frame(quantity: &SeriesQuantity, values: &[f64]) -> Plot {
    let (label, title) = (quantity.label, quantity.title);
    let scale = Scale::from_zero(values.iter().copied());
    match quantity.axis {
        Axis::LogTime => time_plot(label, title, values).0,
        Axis::Number => Plot::new(label, scale, title, tick),
        Axis::Time => {
            let unit = TimeUnit::for_values_us(scale.ticks().into_iter());
            let title = format!("{title}, {}", unit.name());
            Plot::new(label, scale, &title, |us| trimmed(&unit.show(Some(us))))
        }
    }
}

fn points(cell: &Cell, quantity: &SeriesQuantity) -> Vec<ChartPoint> {
    let role = cell.delivering_role().map_or("", |usage| &usage.role);
    let pick = |point: &SeriesPoint| (quantity.pick)(point, role).filter(|it| it.is_finite());
    let all = cell.series.iter();
    let points: Vec<(f64, Option<f64>)> = all
        .filter(|point| point.t_s >= 0.0 && point.t_s.is_finite())
        .map(|point| (point.t_s, pick(point)))
        .collect();
    let groups = points.chunks(points.len().div_ceil(POINTS_MAX).max(1));
    connected(groups.map(|group| {
        let known = group
            .iter()
            .filter_map(|(t_s, value)| Some((*t_s, (*value)?)));
        let (t_s, value) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(ChartPoint::new(t_s, value, String::new()))
    }))
}

#[cfg(test)]
mod tests {
    use weir_stats::run::NoisySpan;

    use super::*;

    #[test]
    fn disturbed_spans_are_merged() {
        let cell = |spans: &[(f64, f64)]| Cell {
            noisy: spans
                .iter()
                .map(|(from_s, until_s)| NoisySpan {
                    from_s: *from_s,
                    until_s: *until_s,
                    reason: String::new(),
                })
                .collect(),
            ..Cell::default()
        };
        let (one, other) = (
            cell(&[(0.0, 1.0), (4.0, 5.0)]),
            cell(&[(1.0, 3.0), (4.5, 4.8)]),
        );
        assert_eq!(disturbed(&[&one, &other]), [(0.0, 3.0), (4.0, 5.0)]);
        assert!(disturbed(&[]).is_empty());
    }
}
