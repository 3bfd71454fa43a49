//! Columns of text, as wide as they must be and no wider than they may be.

/// Rows of cells; the first is the heading.
pub(super) struct TextTable {
    rows: Vec<Vec<String>>,
    widest: Vec<usize>,
}

impl TextTable {
    /// A table with these column heads; a cell wider than its limit is cut, the last column never.
    pub(super) fn new(columns: &[(&str, usize)]) -> Self {
        Self {
            rows: vec![columns.iter().map(|(head, _)| (*head).to_owned()).collect()],
            widest: columns.iter().map(|(_, widest)| *widest).collect(),
        }
    }

    /// Adds a row with one cell for each column.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints all rows, indented.
    pub(super) fn print(&self, indent: &str) {
        let count = self.widest.len();
        let cell = |row: &[String], i: usize| cut(&row[i], self.widest[i]);
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

/// At most `widest` characters of a text, on one line.
pub(super) fn cut(text: &str, widest: usize) -> String {
    let line = one_line(text);
    if line.chars().count() <= widest {
        return line;
    }
    let kept: String = line.chars().take(widest.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Control characters, and those that turn the direction of writing, as escapes: a record cannot
/// draw on the terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}
