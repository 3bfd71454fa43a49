//! Cumulative distributions: share of records at or below each latency.

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, draw, legend, xs};
use super::plot::{Plot, trimmed};
use crate::format::{self, TimeUnit};

/// Creates a line from ascending values in microseconds, each with the share of records up to it.
pub(crate) fn distribution_line(name: &str, slot: &'static str, points: &[(f64, f64)]) -> Series {
    let point =
        |(us, share): &(f64, f64)| ChartPoint::new(us.max(1.0), *share, format!("{name}: {us} µs"));
    Series {
        name: name.to_owned(),
        slot,
        style: LineStyle::Plain,
        points: points.iter().map(point).collect(),
    }
}

/// Draws one chart; returns `None` without points.
pub(crate) fn distribution(label: &str, x_title: &str, lines: &[Series]) -> Option<String> {
    xs(lines).next()?;
    let (scale, shares) = (Scale::log(xs(lines)), Scale::between(0.0, 1.0));
    let unit = TimeUnit::for_values_us(scale.ticks().into_iter());
    let percent = |share: f64| trimmed(&format::number(Some(share * 100.0)));
    let mut plot = Plot::new(label, shares, "share of records, %", percent);
    if lines.len() <= 3 {
        legend(&mut plot, lines);
    }
    let ticks = scale.ticks().into_iter();
    let ticks = ticks.map(|us| (us, trimmed(&unit.show(Some(us)))));
    let x = XAxis {
        title: &format!("{x_title}, {}, log scale", unit.name()),
        scale,
        ticks: ticks.collect(),
        grid: true,
    };
    Some(draw(plot, &x, lines))
}
