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
    /// `true` if a result is missing before this point, so that no line leads to it.
    pub(crate) is_after_gap: bool,
}

impl ChartPoint {
    pub(crate) fn new(x: f64, y: f64, tip: String) -> Self {
        Self {
            x,
            y,
            tip,
            ..Self::default()
        }
    }

    /// Creates the points of a line without tooltips.
    pub(crate) fn plain(points: &[(f64, f64)]) -> Vec<Self> {
        let points = points.iter();
        points
            .map(|(x, y)| Self::new(*x, *y, String::new()))
            .collect()
    }
}

/// Returns the points; a missing result interrupts the line.
pub(crate) fn connected(points: impl Iterator<Item = Option<ChartPoint>>) -> Vec<ChartPoint> {
    let mut is_after_gap = false;
    let point = |point: Option<ChartPoint>| match point {
        Some(point) => Some(ChartPoint {
            is_after_gap: std::mem::take(&mut is_after_gap),
            ..point
        }),
        None => {
            is_after_gap = true;
            None
        }
    };
    points.filter_map(point).collect()
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
        let class = format!("{stroke} {slot}");
        let mut start = 0;
        for part in line.points.chunk_by(|_, next| !next.is_after_gap) {
            plot.svg.path(&places[start..start + part.len()], &class);
            start += part.len();
        }
        for (index, (at, point)) in places.iter().zip(&line.points).enumerate() {
            let is_alone = |at: usize| line.points.get(at).is_none_or(|it| it.is_after_gap);
            let is_dot = (index == 0 || point.is_after_gap) && is_alone(index + 1);
            if line.style == LineStyle::Plain && !is_dot {
                continue;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_results_interrupt_lines() {
        let point = |x: f64| Some(ChartPoint::new(x, x, String::new()));
        let points = [
            point(1.0),
            point(2.0),
            None,
            point(4.0),
            point(5.0),
            None,
            point(7.0),
        ];
        let line = Series {
            name: "gateway".to_owned(),
            slot: "a1",
            style: LineStyle::Plain,
            points: connected(points.into_iter()),
        };
        let plot = Plot::new("test", Scale::between(0.0, 8.0), "y", tick);
        let svg = draw(plot, &XAxis::new("x", Scale::between(0.0, 8.0)), &[line]);
        assert_eq!(svg.matches("<path").count(), 2, "{svg}");
        // The point without neighbours is a dot.
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
    }
}
