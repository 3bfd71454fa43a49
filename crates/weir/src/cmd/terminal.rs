//! Lines at the end of a terminal that are redrawn, below the permanent output.
//!
//! Uses plain escape sequences. Before each redraw the cursor moves up by the number of rows that
//! the lines occupy, which depends on the current width of the terminal.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

/// The redrawn lines at the end of standard output.
pub(crate) struct TerminalArea {
    /// Visible columns of each line currently shown.
    drawn: Vec<usize>,
}

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl TerminalArea {
    pub(crate) fn new() -> Self {
        Self { drawn: Vec::new() }
    }

    /// Replaces the current lines with `lines`.
    pub(crate) fn show(&mut self, lines: &[Text]) {
        let size = size();
        let mut out = move_up(&self.drawn, size);
        for line in lines {
            let _ = writeln!(out, "{}\x1b[K", line.text);
        }
        // Erases the remaining lines of a previously longer block.
        out.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| line.columns).collect();
        write_out(&out);
    }

    /// Keeps the current lines as permanent output; the next lines appear below them.
    pub(crate) fn leave(&mut self) {
        self.drawn.clear();
    }

    /// Erases the current lines; the next output replaces them.
    pub(crate) fn clear(&mut self) {
        if !self.drawn.is_empty() {
            write_out(&format!("{}\x1b[J", move_up(&self.drawn, size())));
            self.drawn.clear();
        }
    }
}

fn write_out(text: &str) {
    let mut out = std::io::stdout().lock();
    // A terminal that accepts no output is not an error of the run.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns the escape sequence that moves the cursor to the first column of the first line.
///
/// A line that is wider than the terminal occupies several rows.
fn move_up(drawn: &[usize], size: Size) -> String {
    let rows: usize = drawn
        .iter()
        .map(|columns| columns.div_ceil(size.columns).max(1))
        .sum();
    // The cursor cannot move above the top row.
    match rows.min(size.rows.saturating_sub(1)) {
        0 => "\r".to_owned(),
        rows => format!("\r\x1b[{rows}A"),
    }
}

/// Returns the size of the terminal on standard output; 80 columns by 24 rows if it is unknown.
pub(crate) fn size() -> Size {
    let reported = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let or_default = |value: Option<u16>, default: usize| match value {
        Some(value) if value > 0 => usize::from(value),
        _ => default,
    };
    Size {
        columns: or_default(reported.as_ref().map(|size| size.ws_col), 80),
        rows: or_default(reported.as_ref().map(|size| size.ws_row), 24),
    }
}

/// Returns `true` if standard output is a terminal that supports escape sequences.
pub(crate) fn is_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_dumb
}

/// Text styles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Strong,
    Pale,
    Good,
    Alarm,
    /// Color of the process role with this index; six colors repeat.
    Role(usize),
}

impl Style {
    fn code(self) -> &'static str {
        const ROLES: [&str; 6] = ["36", "33", "35", "34", "32", "31"];
        match self {
            Self::Plain => "0",
            Self::Strong => "1",
            Self::Pale => "2",
            Self::Good => "32",
            Self::Alarm => "31",
            Self::Role(index) => ROLES[index % ROLES.len()],
        }
    }
}

/// One line of limited width.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    text: String,
    columns: usize,
    columns_max: usize,
    color: bool,
}

impl Text {
    pub(crate) fn new(columns_max: usize, color: bool) -> Self {
        Self {
            text: String::new(),
            columns: 0,
            columns_max,
            color,
        }
    }

    /// Appends `text` without control characters, truncated to the free columns.
    pub(crate) fn push(&mut self, style: Style, text: &str) -> &mut Self {
        let shown: String = text
            .chars()
            .filter(|c| !c.is_control())
            .take(self.free_columns())
            .collect();
        self.columns += shown.chars().count();
        if self.color && style != Style::Plain && !shown.is_empty() {
            let _ = write!(self.text, "\x1b[{}m{shown}\x1b[0m", style.code());
        } else {
            self.text.push_str(&shown);
        }
        self
    }

    /// Appends spaces up to a column.
    pub(crate) fn at(&mut self, column: usize) -> &mut Self {
        let gap = column.saturating_sub(self.columns);
        self.push(Style::Plain, &" ".repeat(gap))
    }

    /// Returns the number of free columns.
    pub(crate) fn free_columns(&self) -> usize {
        self.columns_max - self.columns
    }

    /// Returns the line with its escape sequences.
    #[cfg(test)]
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_truncated_to_its_columns() {
        let mut line = Text::new(10, true);
        line.push(Style::Strong, "12345")
            .push(Style::Plain, "6\u{1b}[2J789ab");
        assert_eq!(line.as_str(), "\u{1b}[1m12345\u{1b}[0m6[2J7");
        assert_eq!(line.free_columns(), 0);
        assert_eq!(
            line.push(Style::Alarm, "x").as_str().matches('x').count(),
            0
        );
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
