//! Shortened display of session ids.

use std::fmt;

/// Formats the first characters: enough to find a session in a log, too few to take it over.
pub(crate) fn fmt_secret(id: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SHOWN_CHARS: usize = 6;
    for character in id.chars().take(SHOWN_CHARS) {
        write!(f, "{}", character.escape_default())?;
    }
    f.write_str("…")
}
