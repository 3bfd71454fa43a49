//! A table as data, written as HTML, Markdown or aligned text.

use std::ops::Range;

use maud::{Markup, Render, html};

use crate::escape;
use crate::format::NONE;
use crate::text::{clip, length, paint, wrap};
use crate::text_table::aligned;

#[derive(Default)]
pub(crate) struct ReportTable {
    /// Columns that are aligned to the right.
    numbers: Range<usize>,
    headings: Vec<String>,
    /// Headings above several columns each, in HTML.
    groups: Vec<(String, usize)>,
    /// `true` if rows with the same first field are a block, below a line with that field. Only
    /// Markdown repeats it in each row.
    is_grouped: bool,
    rows: Vec<TableRow>,
}

struct TableRow {
    class: &'static str,
    fields: Vec<Field>,
}

#[derive(Clone, Default)]
pub(crate) struct Field {
    pub(crate) text: String,
    /// Class of the style sheet. Terminals follow the classes of [`paint`], Markdown only `strong`.
    pub(crate) class: &'static str,
    /// Additional texts, in HTML in a smaller font.
    pub(crate) more: Vec<String>,
    /// Class of a patch of colour before the text, in HTML.
    pub(crate) swatch: Option<&'static str>,
    /// Drawing before the text, in HTML.
    pub(crate) drawing: Markup,
    /// Class and text of a badge after the text, in HTML.
    pub(crate) badge: Option<(&'static str, &'static str)>,
}

impl<T: AsRef<str>> From<T> for Field {
    fn from(text: T) -> Self {
        Self::with("", text.as_ref())
    }
}

impl Field {
    pub(crate) fn with(class: &'static str, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            class,
            ..Self::default()
        }
    }
}

impl ReportTable {
    /// Creates a table with text in the first `left` columns and numbers in the others.
    pub(crate) fn new(left: usize, headings: impl IntoIterator<Item = impl ToString>) -> Self {
        let headings: Vec<String> = headings.into_iter().map(|it| it.to_string()).collect();
        Self {
            numbers: left..headings.len(),
            headings,
            ..Self::default()
        }
    }

    /// Creates a table from its headings in one text, separated by `|`.
    pub(crate) fn headed(left: usize, headings: &str) -> Self {
        Self::new(left, headings.split('|'))
    }

    /// Declares that the columns from `index` on contain text.
    pub(crate) fn text_from(mut self, index: usize) -> Self {
        self.numbers.end = index;
        self
    }

    /// Declares that rows with the same first field are a block.
    pub(crate) fn grouped(mut self) -> Self {
        self.is_grouped = true;
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
        fields: impl IntoIterator<Item = impl Into<Field>>,
    ) {
        let fields = fields.into_iter().map(Into::into).collect();
        self.rows.push(TableRow { class, fields });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn is_short(&self, row: &TableRow) -> bool {
        row.fields.len() < self.headings.len()
    }

    fn blocks(&self) -> impl Iterator<Item = &[TableRow]> {
        let is_same = move |a: &TableRow, b: &TableRow| {
            !self.is_grouped || a.fields[0].text == b.fields[0].text
        };
        self.rows.chunk_by(is_same)
    }

    /// Returns the first column after that of the blocks.
    fn start(&self) -> usize {
        usize::from(self.is_grouped)
    }

    /// Returns a table of some of the columns; short rows stay whole.
    pub(crate) fn select(&self, left: usize, columns: &[usize]) -> Self {
        let rows = self.rows.iter().map(|row| TableRow {
            class: row.class,
            fields: match self.is_short(row) {
                true => row.fields.clone(),
                false => columns.iter().map(|at| row.fields[*at].clone()).collect(),
            },
        });
        let headings = columns.iter().map(|at| self.headings[*at].clone());
        Self {
            numbers: left..columns.len(),
            headings: headings.collect(),
            is_grouped: self.is_grouped,
            rows: rows.collect(),
            ..Self::default()
        }
    }

    /// Returns the columns that have values, without the last ones if lines would be longer than
    /// `width`.
    pub(crate) fn fitting(&self, width: usize) -> Self {
        let widths = self.widths();
        let has_value = |at: &usize| {
            let mut fields = self.rows.iter().filter_map(|row| row.fields.get(*at));
            fields.any(|field| field.text != NONE)
        };
        let mut end = 0;
        let shown = (0..widths.len()).filter(has_value).take_while(|at| {
            end += widths[*at] + 2;
            end <= width + 2
        });
        self.select(self.numbers.start, &shown.collect::<Vec<_>>())
    }

    pub(crate) fn markdown(&self) -> String {
        self.markdown_with(escape::markdown)
    }

    /// Returns the table in Markdown with its texts escaped by `escape`.
    pub(crate) fn markdown_with(&self, escape: fn(&str) -> String) -> String {
        let line = |fields: Vec<String>| format!("| {} |\n", fields.join(" | "));
        let field = |field: &Field| {
            let mark = if field.class == "strong" { "**" } else { "" };
            let (text, more) = (escape(&field.text), escape(&field.more.join(", ")));
            format!("{mark}{text}{mark} {more}").trim_end().to_owned()
        };
        let rule = (0..self.headings.len()).map(|index| match self.numbers.contains(&index) {
            true => "--:|",
            false => "---|",
        });
        let mut out = line(self.headings.iter().map(|it| escape(it)).collect());
        out.push('|');
        out.extend(rule);
        out.push('\n');
        out.extend(self.rows.iter().map(|row| {
            let mut fields: Vec<String> = row.fields.iter().map(field).collect();
            fields.resize(self.headings.len(), String::new());
            line(fields)
        }));
        out
    }

    pub(crate) fn clip(&mut self, column: usize, width: usize) {
        for field in self
            .rows
            .iter_mut()
            .filter_map(|row| row.fields.get_mut(column))
        {
            field.text = clip(&field.text, width);
        }
    }

    /// Returns the width of each column in text. Reasons have no influence on it.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let width = |index: usize| {
            let has_column = |row: &&TableRow| !self.is_short(row) || index + 1 < row.fields.len();
            let rows = self.rows.iter().filter(has_column);
            let widths = rows.map(|row| length(&row.fields[index].text));
            widths.fold(length(&self.headings[index]), usize::max)
        };
        (0..self.headings.len()).map(width).collect()
    }

    /// Returns aligned columns, with coloured fields if `color` is set. Reasons are wrapped to
    /// lines of `width`.
    pub(crate) fn text(&self, indent: &str, width: usize, color: bool) -> String {
        let widths = self.widths();
        let headings: Vec<Field> = self.headings.iter().map(Field::from).collect();
        let head = paint(
            "open",
            &self.line(indent, &headings, &widths, usize::MAX, false),
            color,
        );
        let mut out = String::new();
        for rows in self.blocks() {
            if self.is_grouped {
                let title = escape::terminal(&rows[0].fields[0].text);
                out.push_str(&format!("\n{indent}{}\n", paint("strong", &title, color)));
            }
            out.push_str(&head);
            out.push('\n');
            for row in rows {
                out.push_str(&self.line(indent, &row.fields, &widths, width, color));
                out.push('\n');
            }
        }
        out
    }

    fn line(
        &self,
        indent: &str,
        fields: &[Field],
        widths: &[usize],
        width: usize,
        color: bool,
    ) -> String {
        let (mut line, mut at) = (indent.to_owned(), indent.len());
        let is_short = fields.len() < self.headings.len();
        for (index, field) in fields.iter().enumerate().skip(self.start()) {
            let text = escape::terminal(&field.text);
            let is_last = index + 1 == fields.len();
            let size = length(&text);
            let (text, room) = match is_last && is_short {
                true => (wrap(&text, at, width), 0),
                false => (text, widths[index]),
            };
            let shown = paint(field.class, &text, color);
            let is_number = self.numbers.contains(&index);
            line.push_str(&aligned(&shown, size, room, is_number));
            at += widths[index] + 2;
            if !is_last {
                line.push_str("  ");
            }
        }
        line.trim_end().to_owned()
    }

    /// Returns the classes of a field; the first column of each group has a margin.
    fn class(&self, index: usize, own: &str) -> Option<String> {
        let starts = self.groups.iter().scan(self.start(), |at, (_, size)| {
            *at += size;
            Some(*at)
        });
        let is_first = starts.into_iter().any(|start| start == index);
        let class = match (self.numbers.contains(&index), is_first) {
            (false, _) => own.to_owned(),
            (true, true) => format!("n first {own}"),
            (true, false) => format!("n {own}"),
        };
        let class = class.trim_end().to_owned();
        (!class.is_empty()).then_some(class)
    }

    fn html_row(&self, row: &TableRow, is_alone: bool) -> Markup {
        let (columns, start) = (self.headings.len(), self.start());
        html! {
            tr class=(row.class) {
                @for (index, field) in row.fields.iter().enumerate().skip(start) {
                    @if index == start { th scope="row" {
                        @if let Some(class) = field.swatch { i class={ "swatch " (class) } {} }
                        @if !row.class.starts_with("cont") { (field.text) }
                        @if is_alone { ", " (row.fields[0].text) }
                        @if let Some((class, text)) = field.badge {
                            " " span class={ "badge " (class) } { (text) }
                        }
                    } } @else if index + 1 == row.fields.len() && index + 1 < columns {
                        td.reason colspan=(columns - index) { (field.text) }
                    } @else { td class=[self.class(index, field.class)] {
                        (field.drawing) (field.text) @for more in &field.more { small { (more) } }
                    } }
                }
            } "\n"
        }
    }
}

impl Render for ReportTable {
    fn render(&self) -> Markup {
        let is_wide = self.is_grouped || !self.groups.is_empty();
        let headings = self.headings.iter().enumerate().skip(self.start());
        html! {
            div.scroll tabindex="0" { table class=[is_wide.then_some("results")] { "\n"
                thead {
                    @if !self.groups.is_empty() {
                        tr { @for (name, size) in &self.groups {
                            th.g colspan=(size) scope="colgroup" { (name) }
                        } }
                    }
                    tr { @for (index, heading) in headings {
                        th scope="col" class=[self.class(index, "")] { (heading) }
                    } }
                } "\n"
                @for rows in self.blocks() { tbody {
                    // A block of one row needs no line of its own.
                    @let is_alone = self.is_grouped && rows.len() == 1;
                    @if self.is_grouped && !is_alone { tr.level {
                        th scope="rowgroup" { (rows[0].fields[0].text) }
                        td colspan=(self.headings.len() - 2) {}
                    } }
                    @for row in rows { (self.html_row(row, is_alone)) }
                } "\n" }
            } } "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_reasons_span_columns() {
        let mut table = ReportTable::headed(1, "name|size|rate");
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
        let text = table.text("  ", 80, false);
        assert!(text.contains("  <b>|\u{fffd}[1m    10  2,000\n"), "{text}");
        assert!(text.contains("\n  y         skipped: full\n"), "{text}");
    }

    #[test]
    fn classes_colour_fields() {
        let mut table = ReportTable::headed(1, "metric|verdict");
        table.row("", [Field::from("p99"), Field::with("bad", "worse")]);
        let coloured = table.text("", 80, true);
        assert!(
            coloured.contains("\u{1b}[31mworse\u{1b}[0m\n"),
            "{coloured}"
        );
        assert!(!table.text("", 80, false).contains('\u{1b}'));
    }

    #[test]
    fn blocks_share_columns() {
        let mut table = ReportTable::headed(2, "clients|name|rate").grouped();
        for (clients, name) in [("1", "a"), ("1", "long"), ("2", "a")] {
            table.row("", [clients, name, "5"]);
        }
        let text = table.text("", 80, false);
        let expected = "\n1\nname  rate\na        5\nlong     5\n\n2\nname  rate\na        5\n";
        assert_eq!(text, expected);
        assert!(table.markdown().contains("| 1 | long | 5 |\n| 2 | a |"));
        let page = table.render().into_string();
        assert!(
            page.contains(r#"rowgroup">1</th>"#) && page.contains("a, 2"),
            "{page}"
        );
    }
}
