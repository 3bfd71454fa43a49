//! Lines over a numeric axis.

use super::axis::Scale;
use super::plot::{LegendSymbol, Plot, tick};

/// One series, ascending in x.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) slot: &'static str,
    pub(crate) style: LineStyle,
    pub(crate) points: Vec<ChartPoint>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineStyle {
    /// Without marks; a single point is a dot.
    Plain,
    Marked,
    /// Thinner, dotted and without a legend entry.
    Secondary,
    /// Thinner, dotted and with rings; all such series share a legend entry.
    Published,
}

#[derive(Default)]
pub(crate) struct ChartPoint {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) tip: String,
    /// `true` for the knee of the curve, drawn with a large ring.
    pub(crate) is_knee: bool,
}

impl ChartPoint {
    pub(crate) fn new(x: f64, y: f64, tip: String) -> Self {
        let is_knee = false;
        Self { x, y, tip, is_knee }
    }

    /// Creates the points of a line without tooltips.
    pub(crate) fn plain(points: &[(f64, f64)]) -> Vec<Self> {
        let points = points.iter();
        points
            .map(|(x, y)| Self::new(*x, *y, String::new()))
            .collect()
    }
}

pub(crate) struct XAxis<'a> {
    pub(crate) title: &'a str,
    pub(crate) scale: Scale,
    pub(crate) ticks: Vec<(f64, String)>,
    /// `true` to draw a grid line at each tick.
    pub(crate) grid: bool,
}

impl<'a> XAxis<'a> {
    /// Creates an axis with ticks at round values.
    pub(crate) fn new(title: &'a str, scale: Scale) -> Self {
        let ticks = scale.ticks().into_iter().map(|value| (value, tick(value)));
        Self {
            title,
            scale,
            ticks: ticks.collect(),
            grid: false,
        }
    }
}

pub(crate) fn xs(lines: &[Series]) -> impl Iterator<Item = f64> {
    lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.x)
}

pub(crate) fn ys(lines: &[Series]) -> impl Iterator<Item = f64> {
    lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.y)
}

pub(crate) fn legend(plot: &mut Plot, lines: &[Series]) {
    let is_named = |line: &&Series| {
        let has_entry = matches!(line.style, LineStyle::Plain | LineStyle::Marked);
        has_entry && !line.name.is_empty()
    };
    let named = lines.iter().filter(is_named);
    let mut entries: Vec<_> = named.map(|line| (line.name.as_str(), line.slot)).collect();
    if lines.iter().any(|line| line.style == LineStyle::Published) {
        entries.push(("published", "pub"));
    }
    plot.legend(LegendSymbol::Line, &entries);
}

pub(crate) fn draw(mut plot: Plot, x: &XAxis<'_>, lines: &[Series]) -> String {
    for (value, text) in &x.ticks {
        plot.x_tick(x.scale.fraction(*value), text, x.grid);
    }
    plot.x_title(x.title);
    for line in lines {
        let place = |point: &ChartPoint| (plot.x(x.scale.fraction(point.x)), plot.y(point.y));
        let places: Vec<_> = line.points.iter().map(place).collect();
        let (stroke, mark, radius) = match line.style {
            LineStyle::Plain | LineStyle::Marked => ("line", "fill", 3.4),
            LineStyle::Secondary => ("line published", "fill", 2.0),
            LineStyle::Published => ("line published", "ring", 2.6),
        };
        let slot = line.slot;
        plot.svg.path(&places, &format!("{stroke} {slot}"));
        if line.style == LineStyle::Plain && places.len() > 1 {
            continue;
        }
        for (at, point) in places.iter().zip(&line.points) {
            plot.svg
                .circle(*at, radius, &format!("{mark} {slot}"), &point.tip);
            if point.is_knee {
                plot.svg
                    .circle(*at, 7.5, &format!("knee {slot}"), &point.tip);
            }
        }
    }
    plot.finish()
}
