//! Lines at the end of a terminal that are redrawn, below the permanent output.
//!
//! Before each redraw the cursor moves up by the number of rows that the lines occupy, which
//! depends on the current width of the terminal.

use console::{Term, measure_text_width, truncate_str};

#[derive(Debug, Default)]
pub(crate) struct TerminalArea {
    /// Visible columns of each line currently shown.
    drawn: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// Truncates a line so that its last column stays free: some terminals wrap when it is written.
    pub(crate) fn fit(self, line: &str) -> String {
        truncate_str(line, self.columns.saturating_sub(1), "").into_owned()
    }
}

impl TerminalArea {
    pub(crate) fn show(&mut self, lines: &[String]) {
        let mut out = move_up(&self.drawn, size());
        out.extend(lines.iter().flat_map(|line| [line, "\x1b[K\n"]));
        // Erases the remaining lines of a previously longer block.
        out.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| measure_text_width(line)).collect();
        // A terminal that accepts no output is not an error of the run.
        let _ = Term::stdout().write_str(&out);
    }

    /// Keeps the current lines as permanent output; the next lines appear below them.
    pub(crate) fn leave(&mut self) {
        self.drawn.clear();
    }

    pub(crate) fn clear(&mut self) {
        if !self.drawn.is_empty() {
            self.show(&[]);
        }
    }
}

/// Returns the escape sequence that moves the cursor to the first column of the first line.
///
/// A line that is wider than the terminal occupies several rows.
fn move_up(drawn: &[usize], size: Size) -> String {
    let rows = drawn.iter().map(|it| it.div_ceil(size.columns).max(1));
    // The cursor cannot move above the top row.
    match rows.sum::<usize>().min(size.rows.saturating_sub(1)) {
        0 => "\r".to_owned(),
        rows => format!("\r\x1b[{rows}A"),
    }
}

/// Returns the size of the terminal on standard output; 80 columns by 24 rows if it is unknown.
pub(crate) fn size() -> Size {
    let (rows, columns) = Term::stdout().size_checked().unwrap_or((24, 80));
    Size {
        columns: columns.into(),
        rows: rows.into(),
    }
}

/// Returns the width for tables: the variable `COLUMNS`, else that of the terminal. Lines to other
/// programs have no limit.
pub(crate) fn table_width() -> Option<usize> {
    let given = std::env::var("COLUMNS").ok();
    let given = given.and_then(|width| width.parse().ok());
    given.or_else(|| Term::stdout().is_term().then(|| size().columns))
}

/// Returns `true` if standard output is a terminal that supports escape sequences.
pub(crate) fn is_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    Term::stdout().is_term() && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_truncated_to_the_free_columns() {
        let size = Size {
            columns: 11,
            rows: 24,
        };
        let line = console::Style::new().bold().force_styling(true);
        let line = line.apply_to("12345").to_string() + "6789abc";
        assert_eq!(size.fit(&line), "\u{1b}[1m12345\u{1b}[0m6789a");
        assert_eq!(measure_text_width(&size.fit(&line)), 10);
    }

    #[test]
    fn narrower_terminal_needs_more_rows_up() {
        let size = |columns, rows| Size { columns, rows };
        assert_eq!(move_up(&[], size(80, 24)), "\r");
        assert_eq!(move_up(&[80, 0, 20], size(80, 24)), "\r\u{1b}[3A");
        assert_eq!(move_up(&[80, 0, 20], size(30, 24)), "\r\u{1b}[5A");
        assert_eq!(move_up(&[80; 9], size(80, 5)), "\r\u{1b}[4A");
    }
}
