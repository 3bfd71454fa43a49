//! Text tables with aligned columns of limited width.

use console::truncate_str;

/// Rows of cells; the first row is the heading.
pub(super) struct TextTable {
    rows: Vec<Vec<String>>,
    /// Maximum width of each column in characters.
    widths_max: Vec<usize>,
}

impl TextTable {
    /// Creates a table from column headings and maximum widths.
    ///
    /// Longer cells are truncated, except in the last column.
    pub(super) fn new(columns: &[(&str, usize)]) -> Self {
        Self {
            rows: vec![columns.iter().map(|(head, _)| (*head).to_owned()).collect()],
            widths_max: columns.iter().map(|(_, width_max)| *width_max).collect(),
        }
    }

    /// Adds a row with one cell per column.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints all rows, each after `indent`.
    pub(super) fn print(&self, indent: &str) {
        let count = self.widths_max.len();
        let cell = |row: &[String], i: usize| truncate(&row[i], self.widths_max[i]);
        let width = |i: usize| {
            let widths = self.rows.iter().map(|row| cell(row, i).chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..count).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (i, width) in widths.iter().enumerate() {
                if i + 1 == count {
                    line.push_str(&one_line(&row[i]));
                } else {
                    line.push_str(&format!("{:<width$}  ", cell(row, i)));
                }
            }
            println!("{indent}{}", line.trim_end());
        }
    }
}

/// Returns at most `width_max` columns of a text on one line, ending in `…` if truncated.
pub(super) fn truncate(text: &str, width_max: usize) -> String {
    truncate_str(&one_line(text), width_max, "…").into_owned()
}

/// Returns the text with control characters and bidirectional formatting characters escaped.
///
/// So the content of a record cannot control the terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                line.extend(c.escape_default());
            }
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}
