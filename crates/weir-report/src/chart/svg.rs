//! SVG elements; the templates escape all text.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, Render, html};

use super::style::CSS;
use crate::escape;

/// A place or size: horizontal and vertical.
pub(crate) type Place = (f64, f64);

/// The point of a text that is placed at its position.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

pub(crate) struct Svg {
    size: Place,
    /// Height above the coordinate zero.
    above: f64,
    label: String,
    class: &'static str,
    body: String,
}

/// A coordinate with one decimal.
struct C(f64);

impl Render for C {
    fn render_to(&self, out: &mut String) {
        let _ = write!(out, "{:.1}", self.0);
    }
}

impl Svg {
    /// Creates an empty drawing; `label` is its text for screen readers.
    pub(crate) fn new(size: Place, label: &str, class: &'static str) -> Self {
        Self {
            size,
            above: 0.0,
            label: label.to_owned(),
            class,
            body: String::new(),
        }
    }

    /// Adds space above the drawing; coordinates there are negative.
    pub(crate) fn grow_up(&mut self, height: f64) {
        self.above += height;
    }

    fn push(&mut self, element: &Markup) {
        self.body.push_str(&element.0);
    }

    pub(crate) fn line(&mut self, from: Place, to: Place, class: &str) {
        let (x1, y1, x2, y2) = (C(from.0), C(from.1), C(to.0), C(to.1));
        self.push(&html! { line x1=(x1) y1=(y1) x2=(x2) y2=(y2) class=(class) {} });
    }

    /// Draws an open line through points; draws nothing for fewer than two.
    pub(crate) fn path(&mut self, points: &[Place], class: &str) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(data, "{command}{x:.1} {y:.1}");
        }
        if points.len() > 1 {
            self.shape(&data, class, "");
        }
    }

    /// Draws a shape from path data, with a tooltip unless `tip` is empty.
    pub(crate) fn shape(&mut self, data: &str, class: &str, tip: &str) {
        self.push(&html! { path d=(data) class=(class) { (title(tip)) } });
    }

    /// Draws a rectangle at its top left corner, with a tooltip unless `tip` is empty.
    pub(crate) fn rect(&mut self, at: Place, size: Place, class: &str, tip: &str) {
        let (x, y, width, height) = (C(at.0), C(at.1), C(size.0.max(0.0)), C(size.1.max(0.0)));
        self.push(&html! {
            rect x=(x) y=(y) width=(width) height=(height) class=(class) { (title(tip)) }
        });
    }

    pub(crate) fn circle(&mut self, at: Place, radius: f64, class: &str, tip: &str) {
        let (x, y, radius) = (C(at.0), C(at.1), C(radius));
        self.push(&html! { circle cx=(x) cy=(y) r=(radius) class=(class) { (title(tip)) } });
    }

    pub(crate) fn text(&mut self, at: Place, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (C(at.0), C(at.1));
        self.push(&html! { text x=(x) y=(y) text-anchor=(anchor) class=(class) { (text) } });
    }

    pub(crate) fn finish(self) -> String {
        let ((width, height), above) = (self.size, self.above);
        let (body, height) = (PreEscaped(self.body), height + above);
        let svg = html! {
            svg xmlns="http://www.w3.org/2000/svg" class=(self.class)
                viewBox={ "0 " (0.0 - above) " " (width) " " (height) } role="img"
                aria-label=(self.label) {
                (body)
            }
        };
        svg.into_string()
    }
}

/// Adds the style rules and a margin, for a drawing in its own file.
pub(crate) fn standalone(svg: &str) -> String {
    let view = svg
        .split("viewBox=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let view = view.unwrap_or_default();
    let numbers: Vec<f64> = view.split(' ').filter_map(|it| it.parse().ok()).collect();
    let with_margin = match numbers.as_slice() {
        [x, y, width, height] => {
            format!(
                "{} {} {} {}",
                x - 14.0,
                y - 12.0,
                width + 28.0,
                height + 24.0
            )
        }
        _ => view.to_owned(),
    };
    let style = format!("><style>{CSS}.chart{{background:var(--bg)}}</style>");
    let svg = svg.replacen(view, &with_margin, 1).replacen('>', &style, 1);
    escape::page(&svg) + "\n"
}

fn title(tip: &str) -> Markup {
    html! { @if !tip.is_empty() { title { (tip) } } }
}
