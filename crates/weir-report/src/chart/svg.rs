//! A small SVG writer that escapes all text.

use std::fmt::Write as _;

use super::style::CSS;
use crate::escape::Markup;

/// The point of a text that is placed at its position.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG under construction.
pub(crate) struct Svg {
    width: f64,
    height: f64,
    label: String,
    class: &'static str,
    body: String,
}

impl Svg {
    /// Creates an empty drawing; `label` is its text for screen readers.
    pub(crate) fn new(width: f64, height: f64, label: &str) -> Self {
        Self {
            width,
            height,
            label: label.to_owned(),
            class: "chart",
            body: String::new(),
        }
    }

    pub(crate) fn class(mut self, class: &'static str) -> Self {
        self.class = class;
        self
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" class="{}"/>"#,
            from.0,
            from.1,
            to.0,
            to.1,
            Markup(class)
        );
    }

    /// Draws an open line through points; draws nothing for fewer than two.
    pub(crate) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() < 2 {
            return;
        }
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(data, "{command}{x:.1} {y:.1}");
        }
        let _ = write!(self.body, r#"<path d="{data}" class="{}"/>"#, Markup(class));
    }

    /// Draws a closed shape from path data; draws nothing for empty data.
    pub(crate) fn shape(&mut self, data: &str, class: &str) {
        if !data.is_empty() {
            let _ = write!(self.body, r#"<path d="{data}" class="{}"/>"#, Markup(class));
        }
    }

    /// Draws a shape from path data, with a tooltip.
    pub(crate) fn glyph(&mut self, data: &str, class: &str, tip: &str) {
        let _ = write!(
            self.body,
            r#"<path d="{data}" class="{}">{}</path>"#,
            Markup(class),
            title(tip)
        );
    }

    /// Draws a rectangle at its top left corner, with a tooltip unless `tip` is empty.
    pub(crate) fn rect(&mut self, at: (f64, f64), size: (f64, f64), class: &str, tip: &str) {
        let _ = write!(
            self.body,
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" class="{}">{}</rect>"#,
            at.0,
            at.1,
            size.0.max(0.0),
            size.1.max(0.0),
            Markup(class),
            title(tip)
        );
    }

    pub(crate) fn circle(&mut self, at: (f64, f64), radius: f64, class: &str, tip: &str) {
        let _ = write!(
            self.body,
            r#"<circle cx="{:.1}" cy="{:.1}" r="{radius:.1}" class="{}">{}</circle>"#,
            at.0,
            at.1,
            Markup(class),
            title(tip)
        );
    }

    pub(crate) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.body,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="{anchor}" class="{}">{}</text>"#,
            at.0,
            at.1,
            Markup(class),
            Markup(text)
        );
    }

    /// Returns the finished element.
    pub(crate) fn finish(self) -> String {
        format!(
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" class="{}" viewBox="0 0 {} {}" "#,
                r#"role="img" aria-label="{}">{}</svg>"#
            ),
            self.class,
            self.width,
            self.height,
            Markup(&self.label),
            self.body
        )
    }
}

/// Adds the style rules and a margin, for a drawing of this size in its own file.
pub(crate) fn standalone(svg: &str, width: f64, height: f64) -> String {
    let style = format!("<style>{}.chart{{background:var(--bg)}}</style>", CSS);
    let narrow = format!("viewBox=\"0 0 {width} {height}\"");
    let with_margin = format!("viewBox=\"-14 -12 {} {}\"", width + 28.0, height + 24.0);
    let svg = svg.replacen(&narrow, &with_margin, 1);
    match svg.split_once('>') {
        Some((open, rest)) => format!("{open}>{style}{rest}\n"),
        None => svg,
    }
}

fn title(tip: &str) -> String {
    if tip.is_empty() {
        String::new()
    } else {
        format!("<title>{}</title>", Markup(tip))
    }
}
