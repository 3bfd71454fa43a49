//! White space and line ends as in Java, for expressions and parameters.

/// Returns `true` for white space according to Java's `Character.isWhitespace`, which the connector
/// uses at the edges of path segments. It differs from Unicode's property in the no-break spaces.
fn is_white(c: char) -> bool {
    match c {
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{85}' => false,
        '\u{1c}'..='\u{1f}' => true,
        _ => c.is_whitespace(),
    }
}

/// Removes white space according to Java from both ends.
#[inline]
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_white)
}

/// Returns `true` if the text has no characters other than white space.
#[inline]
pub fn is_blank(text: &str) -> bool {
    trim(text).is_empty()
}

/// Returns `true` if the text contains a character that `.` in the connector's patterns does not
/// match.
pub fn has_line_end(text: &str) -> bool {
    text.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_java_white_space() {
        assert_eq!(trim("\u{a0}a\u{a0}"), "\u{a0}a\u{a0}");
        assert_eq!(trim("\u{1f} a\u{2003}"), "a");
        assert!(is_blank("\t\u{3000}"));
    }
}
