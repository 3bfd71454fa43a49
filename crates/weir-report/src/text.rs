//! Text for a terminal: width, line breaks and colours.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns the text in the colour of a class if `color` is set; other classes have none.
pub(crate) fn paint(class: &str, text: &str, color: bool) -> String {
    let code = match class {
        "strong" => 1,
        "open" => 2,
        "bad" => 31,
        "ok" => 32,
        "warn" => 33,
        _ => 0,
    };
    match color && code > 0 {
        true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        false => text.to_owned(),
    }
}

/// Breaks a text that starts at column `at` into lines of `width`; further lines start there too.
pub(crate) fn wrap(text: &str, at: usize, width: usize) -> String {
    let room = width.saturating_sub(at).max(20);
    wrapped(text, room).join(&format!("\n{:at$}", ""))
}

/// Breaks a text into lines between words; a longer word has a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let size = length(word);
        if used > 0 && used + 1 + size > width {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.len() - 1;
        if used > 0 {
            lines[line].push(' ');
            used += 1;
        }
        lines[line].push_str(word);
        used += size;
    }
    lines
}

/// Returns the columns that a text takes on a terminal.
pub(crate) fn length(text: &str) -> usize {
    text.width()
}

/// Returns at most `width` columns of a text, ending in `…` if truncated.
pub(crate) fn clip(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut clipped = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used >= width {
            break;
        }
        clipped.push(c);
    }
    clipped + "…"
}
