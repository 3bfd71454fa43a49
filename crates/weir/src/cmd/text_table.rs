//! Tables on the terminal, and texts from outside in them.

use console::truncate_str;
use weir_report::{TextTable, wrapped};

use super::terminal;

/// Prints a table with lines that fit the terminal after `indent`.
pub(crate) fn print_table(table: &TextTable, indent: &str) {
    let width = terminal::table_width().map(|width| width.saturating_sub(indent.len()));
    for line in table.lines(width) {
        println!("{}", format!("{indent}{line}").trim_end());
    }
}

/// Prints a text with lines that fit the terminal after `indent`, broken between words.
pub(crate) fn print_wrapped(text: &str, indent: &str) {
    let width = terminal::table_width().unwrap_or(usize::MAX);
    for line in wrapped(text, width.saturating_sub(indent.len())) {
        println!("{indent}{line}");
    }
}

/// Adds a row of texts that may contain anything.
pub(crate) fn add_row(table: &mut TextTable, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| one_line(cell)).collect();
    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
    table.row(&cells);
}

/// Returns at most `width_max` columns of a text on one line, ending in `…` if truncated.
pub(crate) fn truncate(text: &str, width_max: usize) -> String {
    truncate_str(&one_line(text), width_max, "…").into_owned()
}

/// Returns the text with control characters and bidirectional formatting characters escaped.
///
/// So the content of a record cannot control the terminal.
pub(crate) fn one_line(text: &str) -> String {
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
