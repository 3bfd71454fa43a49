//! Charts over time, one line per architecture.

use weir_stats::run::{Cell, Run, SeriesPoint};

use super::axis::Scale;
use super::levels::time_plot;
use super::plot::{LegendSymbol, Plot, tick, trimmed};
use super::style::slot;
use crate::format;
use crate::view::Level;

/// A quantity drawn over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Draws one quantity over time at one level; returns `None` if it was not recorded.
pub(crate) fn over_time(run: &Run, level: &Level<'_>, quantity: SeriesQuantity) -> Option<String> {
    let lines: Vec<(&str, Vec<(f64, f64)>)> = level
        .valid()
        .filter_map(|row| Some((row.name.as_str(), line(row.sample()?, quantity))))
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let points = || lines.iter().flat_map(|(_, points)| points);
    let last_s = points().map(|(t_s, _)| *t_s).reduce(f64::max)?;
    let first_s = points().map(|(t_s, _)| *t_s).reduce(f64::min)?;
    let values: Vec<f64> = points().map(|(_, value)| *value).collect();
    let mut plot = frame(quantity, &values);
    let entries: Vec<_> = lines
        .iter()
        .map(|(name, _)| (*name, slot(run, name)))
        .collect();
    plot.legend(LegendSymbol::Line, &entries);
    let x = Scale::between(first_s, last_s);
    for t_s in x.ticks() {
        plot.x_tick(x.fraction(t_s), &tick(t_s), false);
    }
    plot.x_title("seconds since start of the measured window");
    for (name, points) in &lines {
        let places: Vec<_> = points
            .iter()
            .map(|(t_s, value)| (plot.x(x.fraction(*t_s)), plot.y(*value)))
            .collect();
        plot.svg.path(&places, &format!("line {}", slot(run, name)));
    }
    Some(plot.finish())
}

fn frame(quantity: SeriesQuantity, values: &[f64]) -> Plot {
    let from_zero = || Scale::from_zero(values.iter().copied());
    match quantity {
        SeriesQuantity::ResponseP99 => time_plot("p99 per second", "p99", values).0,
        SeriesQuantity::Delivered => Plot::new(
            "Deliveries per second",
            from_zero(),
            "Deliveries per second",
            tick,
        ),
        SeriesQuantity::DeliveringCpu => Plot::new(
            "CPU usage of the delivering process",
            from_zero(),
            "CPU, cores",
            tick,
        ),
        SeriesQuantity::ScheduleLag => {
            let unit = format::TimeUnit::for_values_us(
                from_zero().ticks().into_iter().filter(|us| *us > 0.0),
            );
            let title = format!("Schedule lag p99, {}", unit.name());
            Plot::new("Schedule lag", from_zero(), &title, |us| {
                trimmed(&unit.show(Some(us)))
            })
        }
    }
}

fn line(cell: &Cell, quantity: SeriesQuantity) -> Vec<(f64, f64)> {
    let role = cell.delivering_role().map(|usage| usage.role.as_str());
    let pick = |point: &SeriesPoint| match quantity {
        SeriesQuantity::ResponseP99 => point.p99_us,
        SeriesQuantity::Delivered => point.delivered_per_s,
        SeriesQuantity::DeliveringCpu => point.cpu_cores.get(role?).copied(),
        SeriesQuantity::ScheduleLag => point.lag_p99_us,
    };
    let points: Vec<(f64, f64)> = cell
        .series
        .iter()
        .filter_map(|point| Some((point.t_s, pick(point)?)))
        .filter(|(t_s, value)| *t_s >= 0.0 && t_s.is_finite() && value.is_finite())
        .collect();
    let group = points.len().div_ceil(POINTS_MAX).max(1);
    points
        .chunks(group)
        .filter_map(|chunk| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)))
        .collect()
}
