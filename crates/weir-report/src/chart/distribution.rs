//! Cumulative distributions: share of records at or below each latency.

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, draw, legend, xs};
use super::plot::{Plot, trimmed};
use crate::format::{self, TimeUnit};

/// One line: values in microseconds, ascending, each with the share of records at or below it.
pub(crate) struct DistributionLine<'a> {
    pub(crate) name: &'a str,
    pub(crate) slot: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws one chart; returns `None` without points.
pub(crate) fn distribution(
    label: &str,
    x_title: &str,
    lines: &[DistributionLine<'_>],
) -> Option<String> {
    let series = lines.iter().map(|line| {
        let points = line.points.iter().map(|(us, share)| {
            ChartPoint::new(us.max(1.0), *share, format!("{}: {us} µs", line.name))
        });
        Series {
            name: line.name.to_owned(),
            slot: line.slot,
            style: LineStyle::Plain,
            points: points.collect(),
        }
    });
    let lines: Vec<Series> = series.collect();
    xs(&lines).next()?;
    let scale = Scale::log(xs(&lines));
    let unit = TimeUnit::for_values_us(scale.ticks().into_iter());
    let percent = |share: f64| trimmed(&format::number(Some(share * 100.0)));
    let mut plot = Plot::new(
        label,
        Scale::between(0.0, 1.0),
        "share of records, %",
        percent,
    );
    if lines.len() <= 3 {
        legend(&mut plot, &lines);
    }
    let ticks = scale.ticks().into_iter();
    let x = XAxis {
        title: &format!("{x_title}, {}, log scale", unit.name()),
        scale,
        ticks: ticks
            .map(|us| (us, trimmed(&unit.show(Some(us)))))
            .collect(),
        grid: true,
    };
    Some(draw(plot, &x, &lines))
}
