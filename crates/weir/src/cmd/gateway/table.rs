//! Text tables with aligned columns of limited width.

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use console::truncate_str;

pub(super) struct TextTable {
    table: Table,
    widths_max: Vec<usize>,
}

impl TextTable {
    /// Creates a table from column headings and maximum widths.
    ///
    /// Longer cells are truncated, except in the last column.
    pub(super) fn new(columns: &[(&str, usize)]) -> Self {
        let (heads, mut widths_max): (Vec<_>, Vec<_>) = columns.iter().copied().unzip();
        widths_max.pop();
        widths_max.push(usize::MAX);
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header(heads);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self { table, widths_max }
    }

    pub(super) fn row(&mut self, cells: &[&str]) {
        let cells = cells.iter().zip(&self.widths_max);
        let cells = cells.map(|(cell, width_max)| truncate(cell, *width_max));
        self.table.add_row(cells);
    }

    pub(super) fn print(&self, indent: &str) {
        for line in self.table.lines() {
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
