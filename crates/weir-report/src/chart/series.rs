//! Charts over time, one line per architecture.

use weir_stats::run::{Cell, Run, SeriesPoint};

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, draw, legend, xs, ys};
use super::plot::{Plot, tick, time_plot, trimmed};
use super::style::slot;
use crate::format::TimeUnit;
use crate::view::Level;

/// A quantity drawn over time.
#[derive(Clone, Copy)]
pub(crate) enum SeriesQuantity {
    /// 99th percentile of the response time in each second.
    ResponseP99,
    /// Deliveries per second.
    Delivered,
    /// Cores used by the delivering process.
    DeliveringCpu,
    /// 99th percentile of the schedule lag in each second.
    ScheduleLag,
}

/// Maximum number of points; longer series keep the largest value of each group.
const POINTS_MAX: usize = 300;
/// Title of the horizontal axis.
pub(crate) const SECONDS: &str = "seconds since start of the measured window";

/// Draws one quantity over time at one level; returns `None` if it was not recorded.
pub(crate) fn over_time(run: &Run, level: &Level<'_>, quantity: SeriesQuantity) -> Option<String> {
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

fn frame(quantity: SeriesQuantity, values: &[f64]) -> Plot {
    let scale = Scale::from_zero(values.iter().copied());
    match quantity {
        SeriesQuantity::ResponseP99 => time_plot("p99 per second", "p99", values).0,
        SeriesQuantity::Delivered => Plot::new(
            "Deliveries per second",
            scale,
            "Deliveries per second",
            tick,
        ),
        SeriesQuantity::DeliveringCpu => {
            let label = "CPU usage of the delivering process";
            Plot::new(label, scale, "CPU, cores", tick)
        }
        SeriesQuantity::ScheduleLag => {
            let unit = TimeUnit::for_values_us(scale.ticks().into_iter());
            let title = format!("Schedule lag p99, {}", unit.name());
            let show = |us| trimmed(&unit.show(Some(us)));
            Plot::new("Schedule lag", scale, &title, show)
        }
    }
}

fn points(cell: &Cell, quantity: SeriesQuantity) -> Vec<(f64, f64)> {
    let role = cell.delivering_role().map(|usage| usage.role.as_str());
    let pick = |point: &SeriesPoint| match quantity {
        SeriesQuantity::ResponseP99 => point.p99_us,
        SeriesQuantity::Delivered => point.delivered_per_s,
        SeriesQuantity::DeliveringCpu => point.cpu_cores.get(role?).copied(),
        SeriesQuantity::ScheduleLag => point.lag_p99_us,
    };
    let all = cell.series.iter();
    let points: Vec<(f64, f64)> = all
        .filter_map(|point| Some((point.t_s, pick(point)?)))
        .filter(|(t_s, value)| *t_s >= 0.0 && t_s.is_finite() && value.is_finite())
        .collect();
    let groups = points.chunks(points.len().div_ceil(POINTS_MAX).max(1));
    let largest = groups.filter_map(|it| it.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
    largest.copied().collect()
}
