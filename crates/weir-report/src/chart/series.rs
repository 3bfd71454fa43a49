//! Charts over time, one line per architecture.

use weir_stats::run::{Cell, Run, SeriesPoint};

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, draw, legend, xs, ys};
use super::plot::{Plot, tick, time_plot, trimmed};
use super::style::slot;
use crate::format::TimeUnit;
use crate::view::Level;

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

/// Draws one quantity over time at one level; returns `None` if it was not recorded.
pub(crate) fn over_time(run: &Run, level: &Level<'_>, quantity: &SeriesQuantity) -> Option<String> {
    let lines = level.valid().filter_map(|row| {
        Some(Series {
            name: row.name.clone(),
            slot: slot(run, &row.name),
            style: LineStyle::Plain,
            points: ChartPoint::plain(&points(row.sample()?, quantity)),
        })
    });
    let lines: Vec<Series> = lines.filter(|line| line.points.len() > 1).collect();
    let first_s = xs(&lines).reduce(f64::min)?;
    let last_s = xs(&lines).reduce(f64::max)?;
    let mut plot = frame(quantity, &ys(&lines).collect::<Vec<_>>());
    legend(&mut plot, &lines);
    let x = XAxis::new(SECONDS, Scale::between(first_s, last_s));
    Some(draw(plot, &x, &lines))
}

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

fn points(cell: &Cell, quantity: &SeriesQuantity) -> Vec<(f64, f64)> {
    let role = cell.delivering_role().map_or("", |usage| &usage.role);
    let pick = |point: &SeriesPoint| (quantity.pick)(point, role);
    let all = cell.series.iter();
    let points: Vec<(f64, f64)> = all
        .filter_map(|point| Some((point.t_s, pick(point)?)))
        .filter(|(t_s, value)| *t_s >= 0.0 && t_s.is_finite() && value.is_finite())
        .collect();
    let groups = points.chunks(points.len().div_ceil(POINTS_MAX).max(1));
    let largest = groups.filter_map(|it| it.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
    largest.copied().collect()
}
