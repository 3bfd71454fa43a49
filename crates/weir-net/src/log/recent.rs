//! The latest lines of the log, for the dashboard.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Number of lines kept.
const LINES_MAX: usize = 50;
/// Maximum number of bytes kept of one line.
const LINE_BYTES_MAX: usize = 400;

static RECENT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Keeps a line; only the thread that writes the log calls this.
pub(super) fn keep(line: &[u8]) {
    let mut lines = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    push(&mut lines, line);
}

/// Returns the latest lines of this process, oldest first, each truncated to 400 bytes.
pub fn recent_lines() -> Vec<String> {
    let lines = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().cloned().collect()
}

fn push(lines: &mut VecDeque<String>, line: &[u8]) {
    if lines.len() == LINES_MAX {
        lines.pop_front();
    }
    let line = line.trim_ascii_end();
    let shown = &line[..line.len().min(LINE_BYTES_MAX)];
    lines.push_back(without_colours(&String::from_utf8_lossy(shown)));
}

/// Removes the colours of a terminal.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, text)| text));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_lines_are_kept_and_truncated() {
        let mut lines = VecDeque::new();
        for number in 0..LINES_MAX + 3 {
            push(&mut lines, format!("line {number}\n").as_bytes());
        }
        assert_eq!((lines.len(), lines[0].as_str()), (LINES_MAX, "line 3"));
        push(&mut lines, &[b'x'; 2 * LINE_BYTES_MAX]);
        assert_eq!(lines.back().map(String::len), Some(LINE_BYTES_MAX));
    }

    #[test]
    fn colours_are_removed() {
        assert_eq!(
            without_colours("\u{1b}[2mnow\u{1b}[0m \u{1b}[33m WARN"),
            "now  WARN"
        );
        assert_eq!(without_colours("cut \u{1b}[3"), "cut ");
    }
}
