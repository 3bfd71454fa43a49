//! Line charts over a numeric axis: latency by throughput, metrics by parameter.

use super::axis::Scale;
use super::plot::{LegendSymbol, Plot, tick};

/// One series, ascending in x.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) slot: &'static str,
    /// `true` if drawn thinner, dotted and without a legend entry.
    pub(crate) is_secondary: bool,
    pub(crate) points: Vec<ChartPoint>,
}

/// One point of a line.
pub(crate) struct ChartPoint {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Tooltip text.
    pub(crate) tip: String,
    /// `true` for the knee of the curve, drawn with a large ring.
    pub(crate) is_knee: bool,
}

/// Options of the horizontal axis.
pub(crate) struct XAxis<'a> {
    pub(crate) title: &'a str,
    pub(crate) log: bool,
    /// Text of a tick.
    pub(crate) show: &'a dyn Fn(f64) -> String,
    /// `true` to put ticks at the values themselves, for a few chosen values.
    pub(crate) at_values: bool,
}

/// Draws the lines into a prepared plot.
pub(crate) fn draw(mut plot: Plot, x: &XAxis<'_>, lines: &[Series]) -> String {
    let entries: Vec<_> = lines
        .iter()
        .filter(|line| !line.is_secondary && !line.name.is_empty())
        .map(|line| (line.name.as_str(), line.slot))
        .collect();
    plot.legend(LegendSymbol::Line, &entries);
    let values: Vec<f64> = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.x)
        .collect();
    let scale = match x.log {
        true => Scale::log(values.iter().copied()),
        false => Scale::from_zero(values.iter().copied()),
    };
    for value in ticks(&values, scale, x.at_values) {
        plot.x_tick(scale.fraction(value), &(x.show)(value), false);
    }
    plot.x_title(x.title);
    for line in lines {
        let place = |point: &ChartPoint| (scale.fraction(point.x), point.y);
        let places: Vec<_> = line
            .points
            .iter()
            .map(place)
            .map(|(at, y)| (plot.x(at), plot.y(y)))
            .collect();
        let (stroke, radius) = match line.is_secondary {
            true => ("line published", 2.0),
            false => ("line", 3.4),
        };
        plot.svg.path(&places, &format!("{stroke} {}", line.slot));
        for (at, point) in places.iter().zip(&line.points) {
            plot.svg
                .circle(*at, radius, &format!("fill {}", line.slot), &point.tip);
            if point.is_knee {
                plot.svg
                    .circle(*at, 7.5, &format!("knee {}", line.slot), &point.tip);
            }
        }
    }
    plot.finish()
}

/// Returns the ticks: with `at_values` the values themselves, without those too close to be read.
fn ticks(values: &[f64], scale: Scale, at_values: bool) -> Vec<f64> {
    if !at_values {
        return scale.ticks();
    }
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    let mut labelled: Vec<f64> = Vec::new();
    for value in sorted {
        let is_free = labelled
            .last()
            .is_none_or(|last| scale.fraction(value) - scale.fraction(*last) > 0.11);
        if is_free {
            labelled.push(value);
        }
    }
    labelled
}

/// Creates a plot with a linear axis from zero, or a logarithmic axis if the values differ by more
/// than a factor of [`WIDE`].
pub(crate) fn frame(label: &str, y_title: &str, lines: &[Series]) -> Plot {
    let values = || {
        lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|point| point.y)
    };
    let least = values().fold(f64::INFINITY, f64::min);
    if least > 0.0 && values().fold(0.0, f64::max) > least * WIDE {
        let title = format!("{y_title}, log scale");
        return Plot::new(label, Scale::log(values()), &title, tick);
    }
    Plot::new(label, Scale::from_zero(values()), y_title, tick)
}

/// Ratio of largest to smallest value above which the axis becomes logarithmic.
const WIDE: f64 = 200.0;
