//! Lines over a numeric axis: throughput-latency curves, sweeps over a parameter.

use super::axis::Scale;
use super::plot::{LegendSymbol, Plot, tick};

/// One series, ascending in x.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) slot: &'static str,
    /// Drawn thinner, in dots, without an entry in the legend.
    pub(crate) is_secondary: bool,
    pub(crate) points: Vec<ChartPoint>,
}

/// One point of a line.
pub(crate) struct ChartPoint {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// What a pointer above it shows.
    pub(crate) tip: String,
    /// Drawn as a large ring: where the curve bends.
    pub(crate) is_knee: bool,
}

/// What the horizontal axis is.
pub(crate) struct XAxis<'a> {
    pub(crate) title: &'a str,
    pub(crate) log: bool,
    /// Text of a tick.
    pub(crate) show: &'a dyn Fn(f64) -> String,
    /// Ticks at the values themselves, where these are few and chosen.
    pub(crate) at_values: bool,
}

/// Draws into a ready frame.
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
        plot.x_tick(scale.place(value), &(x.show)(value), false);
    }
    plot.x_title(x.title);
    for line in lines {
        let place = |point: &ChartPoint| (scale.place(point.x), point.y);
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

/// The values themselves if they are few, and far enough apart to be read.
fn ticks(values: &[f64], scale: Scale, at_values: bool) -> Vec<f64> {
    if !at_values {
        return scale.ticks();
    }
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    let mut kept: Vec<f64> = Vec::new();
    for value in sorted {
        let is_free = kept
            .last()
            .is_none_or(|last| scale.place(value) - scale.place(*last) > 0.11);
        if is_free {
            kept.push(value);
        }
    }
    kept
}

/// A frame from zero, or a logarithmic one where the largest figure would leave the others on the floor.
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

/// Factor between figures beyond which a linear axis shows only the largest.
const WIDE: f64 = 200.0;
