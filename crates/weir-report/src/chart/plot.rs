//! The frame shared by all charts: legend, axes, grid and plot area.

use super::axis::Scale;
use super::svg::{Anchor, Svg};
use crate::format::{self, TimeUnit};

pub(crate) const WIDTH: f64 = 440.0;
pub(crate) const HEIGHT: f64 = 270.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = WIDTH - 10.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 38.0;

#[derive(Clone, Copy)]
pub(crate) enum LegendSymbol {
    Line,
    Dot,
    Bar,
}

/// A chart with a numeric y axis; x is a position from 0 to 1.
pub(crate) struct Plot {
    pub(crate) svg: Svg,
    y: Scale,
}

impl Plot {
    /// Creates a frame with horizontal grid lines; `y_title` contains quantity and unit.
    pub(crate) fn new(label: &str, y: Scale, y_title: &str, show: impl Fn(f64) -> String) -> Self {
        let mut svg = Svg::new((WIDTH, HEIGHT), label, "chart");
        svg.text((0.0, TOP - 13.0), Anchor::Start, "axis", y_title);
        for tick in y.ticks() {
            let level = BOTTOM - y.fraction(tick) * (BOTTOM - TOP);
            svg.line((LEFT, level), (RIGHT, level), "grid");
            svg.text((LEFT - 7.0, level + 3.6), Anchor::End, "tick", &show(tick));
        }
        svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "base");
        Self { svg, y }
    }

    /// Draws the names of the series on one line above the plot.
    pub(crate) fn legend(&mut self, key: LegendSymbol, entries: &[(&str, &'static str)]) {
        // A long legend starts at the edge with smaller gaps.
        let (mut x, gap) = match entries.len() {
            0..=4 => (LEFT, 19.0),
            _ => (0.0, 12.0),
        };
        for (name, slot) in entries {
            let shown: String = name.chars().take(18).collect();
            let width = match key {
                LegendSymbol::Line => {
                    let class = format!("line {slot}");
                    self.svg.line((x, 8.0), (x + 18.0, 8.0), &class);
                    18.0
                }
                LegendSymbol::Dot => {
                    let class = format!("fill {slot}");
                    self.svg.circle((x + 4.0, 8.0), 4.6, &class, "");
                    8.0
                }
                LegendSymbol::Bar => {
                    let class = format!("bar {slot}");
                    self.svg.rect((x, 3.5), (9.0, 9.0), &class, "");
                    9.0
                }
            };
            let at = (x + width + 5.0, 12.0);
            self.svg.text(at, Anchor::Start, "key", &shown);
            x += width + gap + 6.9 * shown.chars().count() as f64;
        }
    }

    pub(crate) fn x_title(&mut self, text: &str) {
        let at = (f64::midpoint(LEFT, RIGHT), HEIGHT - 4.0);
        self.svg.text(at, Anchor::Middle, "axis", text);
    }

    /// Draws a tick label of the x axis, with a grid line if `grid` is set.
    pub(crate) fn x_tick(&mut self, place: f64, text: &str, grid: bool) {
        let x = self.x(place);
        if grid {
            self.svg.line((x, TOP), (x, BOTTOM), "grid");
        }
        // The last label would extend beyond the drawing.
        let half_width = 3.2 * text.chars().count() as f64;
        let (x, anchor) = match x + half_width > WIDTH {
            true => (WIDTH, Anchor::End),
            false => (x, Anchor::Middle),
        };
        self.svg.text((x, BOTTOM + 15.0), anchor, "tick", text);
    }

    pub(crate) fn x(&self, place: f64) -> f64 {
        LEFT + place * (RIGHT - LEFT)
    }

    pub(crate) fn y(&self, value: f64) -> f64 {
        BOTTOM - self.y.fraction(value) * (BOTTOM - TOP)
    }

    pub(crate) fn finish(self) -> String {
        self.svg.finish()
    }
}

/// Creates a plot of latencies with a logarithmic axis in one unit. The axis title starts with
/// `quantity`.
pub(crate) fn time_plot(label: &str, quantity: &str, values_us: &[f64]) -> (Plot, TimeUnit) {
    let scale = Scale::log(values_us.iter().copied());
    let unit = TimeUnit::for_values_us(scale.ticks().into_iter());
    let title = format!("{quantity}, {}, log scale", unit.name());
    let plot = Plot::new(label, scale, &title, |us| trimmed(&unit.show(Some(us))));
    (plot, unit)
}

/// Formats a tick without needless decimals: `0.5`, `20`, `1,500`.
pub(crate) fn tick(value: f64) -> String {
    match value.abs() >= 1e5 && value % 1000.0 == 0.0 {
        true => format!("{}k", trimmed(&format::number(Some(value / 1e3)))),
        false => trimmed(&format::number(Some(value))),
    }
}

/// Removes trailing zeros: `0.5`, not `0.50`.
pub(crate) fn trimmed(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}
