//! HTML elements shared by several sections.

use std::fmt::Write as _;

use crate::escape::Markup;

/// Writes a chart with its caption.
pub(crate) fn figure(out: &mut String, svg: &str, class: &str, caption: &str) {
    let _ = writeln!(
        out,
        "<figure class=\"{class}\"><div class=\"scroll\">{svg}</div>\
         <figcaption>{}</figcaption></figure>",
        Markup(caption)
    );
}

/// A table with text in the first `left` columns and numbers in the others.
pub(crate) struct HtmlTable {
    left: usize,
    text: String,
}

impl HtmlTable {
    pub(crate) fn new(left: usize, headings: &[impl AsRef<str>]) -> Self {
        let mut text = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
        for (index, heading) in headings.iter().enumerate() {
            let class = if index < left { "" } else { " class=\"n\"" };
            let _ = write!(
                text,
                "<th scope=\"col\"{class}>{}</th>",
                Markup(heading.as_ref())
            );
        }
        text.push_str("</tr></thead>\n<tbody>\n");
        Self { left, text }
    }

    /// Writes a row and escapes its fields. `class` must be a class of the style sheet.
    pub(crate) fn row(&mut self, class: &str, fields: &[String]) {
        let _ = write!(self.text, "<tr class=\"{class}\">");
        for (index, field) in fields.iter().enumerate() {
            let _ = match index {
                0 => write!(self.text, "<th scope=\"row\">{}</th>", Markup(field)),
                index if index < self.left => write!(self.text, "<td>{}</td>", Markup(field)),
                _ => write!(self.text, "<td class=\"n\">{}</td>", Markup(field)),
            };
        }
        self.text.push_str("</tr>\n");
    }

    pub(crate) fn finish(mut self, out: &mut String) {
        self.text.push_str("</tbody></table></div>\n");
        out.push_str(&self.text);
    }
}
