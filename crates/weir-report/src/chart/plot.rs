//! Frame shared by all charts: legend, axes, grid and plot area.

use super::axis::Scale;
use super::svg::{Anchor, Svg};
use crate::format::{self, TimeUnit};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = WIDTH - 10.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 38.0;
const LEGEND_LINE_HEIGHT: f64 = 17.0;
const NAME_CHARS_MAX: usize = 24;
/// Width of a character in a legend, on average.
const NAME_CHAR_WIDTH: f64 = 6.9;

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

    /// Draws the names of the series above the plot, on as many lines as they need.
    pub(crate) fn legend(&mut self, symbol: LegendSymbol, entries: &[(&str, &'static str)]) {
        const GAP: f64 = 17.0;
        let symbol_width = match symbol {
            LegendSymbol::Line => 18.0,
            LegendSymbol::Dot => 8.0,
            LegendSymbol::Bar => 9.0,
        };
        let shown = |name: &str| -> String { name.chars().take(NAME_CHARS_MAX).collect() };
        let width =
            |name: &str| symbol_width + 5.0 + NAME_CHAR_WIDTH * shown(name).chars().count() as f64;
        let mut lines: Vec<Vec<(f64, &str, &'static str)>> = vec![Vec::new()];
        let mut x = LEFT;
        for (name, slot) in entries {
            if x + width(name) > WIDTH && x > LEFT {
                lines.push(Vec::new());
                x = LEFT;
            }
            let last = lines.len() - 1;
            lines[last].push((x, name, slot));
            x += width(name) + GAP;
        }
        let count = lines.len();
        self.svg.grow_up((count - 1) as f64 * LEGEND_LINE_HEIGHT);
        for (index, line) in lines.into_iter().enumerate() {
            let y = 8.0 - (count - 1 - index) as f64 * LEGEND_LINE_HEIGHT;
            for (x, name, slot) in line {
                self.draw_symbol(symbol, (x, y), slot);
                let at = (x + symbol_width + 5.0, y + 4.0);
                self.svg.text(at, Anchor::Start, "key", &shown(name));
            }
        }
    }

    fn draw_symbol(&mut self, symbol: LegendSymbol, (x, y): (f64, f64), slot: &str) {
        match symbol {
            LegendSymbol::Line => {
                let class = format!("line {slot}");
                self.svg.line((x, y), (x + 18.0, y), &class);
            }
            LegendSymbol::Dot => {
                let class = format!("fill {slot}");
                self.svg.circle((x + 4.0, y), 4.6, &class, "");
            }
            LegendSymbol::Bar => {
                let class = format!("bar {slot}");
                self.svg.rect((x, y - 4.5), (9.0, 9.0), &class, "");
            }
        }
    }

    pub(crate) fn x_title(&mut self, text: &str) {
        let at = (f64::midpoint(LEFT, RIGHT), HEIGHT - 4.0);
        self.svg.text(at, Anchor::Middle, "axis", text);
    }

    /// Draws a tick label of the x axis, with a grid line if `grid` is set.
    pub(crate) fn x_tick(&mut self, position: f64, text: &str, grid: bool) {
        let x = self.x(position);
        if grid {
            self.svg.line((x, TOP), (x, BOTTOM), "grid");
        }
        // A centred last label could extend beyond the drawing.
        let half_width = 3.2 * text.chars().count() as f64;
        let (x, anchor) = match x + half_width > WIDTH {
            true => (WIDTH, Anchor::End),
            false => (x, Anchor::Middle),
        };
        self.svg.text((x, BOTTOM + 15.0), anchor, "tick", text);
    }

    /// Draws a band over the whole height; later elements are drawn over it.
    pub(crate) fn band(&mut self, from: f64, until: f64, class: &str, tip: &str) {
        let (left, right) = (self.x(from), self.x(until));
        let size = ((right - left).max(1.0), BOTTOM - TOP);
        self.svg.rect((left, TOP), size, class, tip);
    }

    pub(crate) fn x(&self, position: f64) -> f64 {
        LEFT + position * (RIGHT - LEFT)
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

/// Formats a tick without trailing zeros: `0.5`, `20`, `1,500`; whole thousands as `100k`.
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
