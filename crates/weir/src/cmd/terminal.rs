//! A few lines at the end of a terminal that are drawn again and again, above them what stays.
//!
//! Plain escape sequences: the block moves up by as many rows as it took, which a resize changes.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

/// The lines at the end of standard output.
pub(crate) struct TerminalArea {
    /// Visible columns of each line that stands there now.
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

    /// Puts `lines` in place of those before.
    pub(crate) fn show(&mut self, lines: &[Text]) {
        let size = size();
        let mut out = back(&self.drawn, size);
        for line in lines {
            let _ = writeln!(out, "{}\x1b[K", line.text);
        }
        // What a longer block has left.
        out.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| line.columns).collect();
        write_out(&out);
    }

    /// Leaves the lines where they are; what is shown next comes below them.
    pub(crate) fn leave(&mut self) {
        self.drawn.clear();
    }

    /// Takes the lines away; what is printed next stands in their place and stays.
    pub(crate) fn clear(&mut self) {
        if !self.drawn.is_empty() {
            write_out(&format!("{}\x1b[J", back(&self.drawn, size())));
            self.drawn.clear();
        }
    }
}

fn write_out(text: &str) {
    let mut out = std::io::stdout().lock();
    // A terminal that takes no more is nothing to fail for.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// To the first column of the first line: a line that is wider than the terminal has become takes several rows.
fn back(drawn: &[usize], size: Size) -> String {
    let rows: usize = drawn
        .iter()
        .map(|columns| columns.div_ceil(size.columns).max(1))
        .sum();
    // The cursor cannot go beyond the top, where there is nothing of ours any more.
    match rows.min(size.rows.saturating_sub(1)) {
        0 => "\r".to_owned(),
        rows => format!("\r\x1b[{rows}A"),
    }
}

/// What standard output is shown on, 80 columns by 24 rows if it does not tell.
pub(crate) fn size() -> Size {
    let told = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let of = |value: Option<u16>, other: usize| match value {
        Some(value) if value > 0 => usize::from(value),
        _ => other,
    };
    Size {
        columns: of(told.as_ref().map(|size| size.ws_col), 80),
        rows: of(told.as_ref().map(|size| size.ws_row), 24),
    }
}

/// Whether standard output is a terminal that understands escape sequences.
pub(crate) fn is_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_dumb
}

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Strong,
    Pale,
    Good,
    Alarm,
    /// One of six, by its place.
    Part(usize),
}

impl Style {
    fn code(self) -> &'static str {
        const PARTS: [&str; 6] = ["36", "33", "35", "34", "32", "31"];
        match self {
            Self::Plain => "0",
            Self::Strong => "1",
            Self::Pale => "2",
            Self::Good => "32",
            Self::Alarm => "31",
            Self::Part(place) => PARTS[place % PARTS.len()],
        }
    }
}

/// One line that knows how wide it is, and never grows beyond what it was given.
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

    /// Appends what still fits; control characters are left out.
    pub(crate) fn push(&mut self, style: Style, text: &str) -> &mut Self {
        let room = self.columns_max - self.columns;
        let shown: String = text
            .chars()
            .filter(|c| !c.is_control())
            .take(room)
            .collect();
        self.columns += shown.chars().count();
        if self.color && style != Style::Plain && !shown.is_empty() {
            let _ = write!(self.text, "\x1b[{}m{shown}\x1b[0m", style.code());
        } else {
            self.text.push_str(&shown);
        }
        self
    }

    /// Goes on at a column, if it is not there yet.
    pub(crate) fn at(&mut self, column: usize) -> &mut Self {
        let gap = column.saturating_sub(self.columns);
        self.push(Style::Plain, &" ".repeat(gap))
    }

    /// Columns that are left.
    pub(crate) fn room(&self) -> usize {
        self.columns_max - self.columns
    }

    /// The line with its escape sequences.
    #[cfg(test)]
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_grows_beyond_its_columns() {
        let mut line = Text::new(10, true);
        line.push(Style::Strong, "12345")
            .push(Style::Plain, "6\u{1b}[2J789ab");
        assert_eq!(line.as_str(), "\u{1b}[1m12345\u{1b}[0m6[2J7");
        assert_eq!(line.room(), 0);
        assert_eq!(
            line.push(Style::Alarm, "x").as_str().matches('x').count(),
            0
        );
    }

    #[test]
    fn a_narrower_terminal_has_more_rows_to_go_back() {
        let size = |columns, rows| Size { columns, rows };
        assert_eq!(back(&[], size(80, 24)), "\r");
        assert_eq!(back(&[80, 0, 20], size(80, 24)), "\r\u{1b}[3A");
        assert_eq!(back(&[80, 0, 20], size(30, 24)), "\r\u{1b}[5A");
        assert_eq!(back(&[80; 9], size(80, 5)), "\r\u{1b}[4A");
    }
}
