//! A table as data, written as HTML, Markdown or aligned text.

use std::ops::Range;

use comfy_table::CellAlignment;
use comfy_table::presets::NOTHING;
use maud::{Markup, Render, html};

use crate::escape;

/// Headings and rows.
#[derive(Default)]
pub(crate) struct ReportTable {
    /// Columns that are aligned to the right.
    numbers: Range<usize>,
    headings: Vec<String>,
    /// Headings above several columns each, in HTML.
    groups: Vec<(String, usize)>,
    rows: Vec<TableRow>,
}

struct TableRow {
    class: &'static str,
    fields: Vec<String>,
}

fn texts(fields: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
    fields.into_iter().map(|it| it.to_string()).collect()
}

impl ReportTable {
    /// Creates a table with text in the first `left` columns and numbers in the others.
    pub(crate) fn new(left: usize, headings: impl IntoIterator<Item = impl ToString>) -> Self {
        let headings = texts(headings);
        Self {
            numbers: left..headings.len(),
            headings,
            ..Self::default()
        }
    }

    /// Declares that the columns from `index` on contain text.
    pub(crate) fn text_from(mut self, index: usize) -> Self {
        self.numbers.end = index;
        self
    }

    /// Sets headings above columns; each has the number of its columns.
    pub(crate) fn groups(mut self, groups: Vec<(String, usize)>) -> Self {
        self.groups = groups;
        self
    }

    /// Adds a row. The last field of a short row, a reason, takes the remaining columns.
    ///
    /// `class` is a class of the style sheet. The first field of `cont`, a continued row, is shown
    /// only in text formats.
    pub(crate) fn row(
        &mut self,
        class: &'static str,
        fields: impl IntoIterator<Item = impl ToString>,
    ) {
        let fields = texts(fields);
        self.rows.push(TableRow { class, fields });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns a table of some of the columns.
    pub(crate) fn select(&self, left: usize, columns: &[usize]) -> Self {
        let pick = |fields: &[String]| columns.iter().map(|at| fields[*at].clone()).collect();
        let rows = self.rows.iter().map(|row| TableRow {
            class: row.class,
            fields: pick(&row.fields),
        });
        Self {
            numbers: left..columns.len(),
            headings: pick(&self.headings),
            groups: Vec::new(),
            rows: rows.collect(),
        }
    }

    /// Returns the table in Markdown.
    pub(crate) fn markdown(&self) -> String {
        self.markdown_with(escape::markdown)
    }

    /// Returns the table in Markdown with its texts escaped by `escape`.
    pub(crate) fn markdown_with(&self, escape: fn(&str) -> String) -> String {
        let line = |fields: &[String]| {
            let mut fields: Vec<String> = fields.iter().map(|it| escape(it)).collect();
            fields.resize(self.headings.len(), String::new());
            format!("| {} |\n", fields.join(" | "))
        };
        let rule = (0..self.headings.len()).map(|index| match self.numbers.contains(&index) {
            true => "--:|",
            false => "---|",
        });
        let mut out = format!("{}|{}\n", line(&self.headings), rule.collect::<String>());
        out.extend(self.rows.iter().map(|row| line(&row.fields)));
        out
    }

    /// Returns aligned columns; with `color`, the class of a row colours its last field.
    pub(crate) fn text(&self, indent: &str, color: bool) -> String {
        let mut table = comfy_table::Table::new();
        let is_short = |row: &TableRow| row.fields.len() < self.headings.len();
        table.load_preset(NOTHING).set_header(&self.headings);
        for row in &self.rows {
            let mut fields: Vec<String> =
                row.fields.iter().map(|it| escape::terminal(it)).collect();
            match fields.last_mut() {
                Some(_) if is_short(row) => drop(fields.pop()),
                Some(last) if color => *last = painted(row.class, last),
                _ => {}
            }
            table.add_row(fields);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.numbers.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let reasons = self.rows.iter().map(|row| match row.fields.last() {
            Some(reason) if is_short(row) => format!("  {}", escape::terminal(reason)),
            _ => String::new(),
        });
        let reasons = std::iter::once(String::new()).chain(reasons);
        let lines = table.lines().zip(reasons);
        let lines = lines.map(|(line, reason)| format!("{indent}{}{reason}\n", line.trim_end()));
        lines.collect()
    }

    fn column_class(&self, index: usize) -> Option<&'static str> {
        let starts = self.groups.iter().scan(0, |at, (_, size)| {
            *at += size;
            Some(*at)
        });
        let is_first = starts.into_iter().any(|start| start == index);
        match (self.numbers.contains(&index), is_first) {
            (false, _) => None,
            (true, true) => Some("n first"),
            (true, false) => Some("n"),
        }
    }
}

impl Render for ReportTable {
    fn render(&self) -> Markup {
        let columns = self.headings.len();
        html! {
            div.scroll { table class=[(!self.groups.is_empty()).then_some("results")] { "\n"
                thead {
                    @if !self.groups.is_empty() {
                        tr { @for (name, size) in &self.groups {
                            th.g colspan=(size) scope="colgroup" { (name) }
                        } }
                    }
                    tr { @for (index, heading) in self.headings.iter().enumerate() {
                        th scope="col" class=[self.column_class(index)] { (heading) }
                    } }
                } "\n"
                tbody { @for row in &self.rows {
                    tr class=(row.class) { @for (index, field) in row.fields.iter().enumerate() {
                        @if index == 0 {
                            th scope="row" { @if !row.class.starts_with("cont") { (field) } }
                        } @else if index + 1 == row.fields.len() && index + 1 < columns {
                            td.reason colspan=(columns - index) { (field) }
                        } @else { td class=[self.column_class(index)] { (field) } }
                    } } "\n"
                } }
            } } "\n"
        }
    }
}

fn painted(class: &str, text: &str) -> String {
    let code = match class {
        "bad" => "31",
        "ok" => "32",
        "warn" => "33",
        _ => return text.to_owned(),
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_reasons_span_columns() {
        let mut table = ReportTable::new(1, ["name", "size", "rate"]);
        table.row("", ["<b>|\u{1b}[1m", "10", "2,000"]);
        table.row("bad", ["y", "skipped: full"]);
        let page = table.render().into_string();
        assert!(
            page.contains("&lt;b&gt;") && page.contains(r#"colspan="2">skipped"#),
            "{page}"
        );
        let markdown = table.markdown();
        assert!(
            markdown.contains("|---|--:|--:|\n| &lt;b&gt;\\|"),
            "{markdown}"
        );
        assert!(
            markdown.contains("| y | skipped: full |  |\n"),
            "{markdown}"
        );
        let text = table.text("  ", false);
        assert!(text.contains("  <b>|\u{fffd}[1m    10  2,000\n"), "{text}");
        assert!(text.contains("\n  y  skipped: full\n"), "{text}");
    }

    #[test]
    fn class_colours_the_last_field() {
        let mut table = ReportTable::new(1, ["metric", "verdict"]);
        table.row("bad", ["p99", "worse"]);
        assert!(table.text("", true).contains("\u{1b}[31mworse\u{1b}[0m\n"));
        assert!(!table.text("", false).contains('\u{1b}'));
    }
}
