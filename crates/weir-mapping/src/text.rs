//! White space rules shared by the parsers, as in Java and in the metadata adapter.

/// Splits the item group of a subscription into item names, as the stock metadata adapter does.
///
/// Separators are the ASCII white space characters. A blank group yields nothing.
pub fn split_items(group: &str) -> impl Iterator<Item = &str> {
    split_ascii_white(group)
}

/// Splits the field schema of a subscription into field names, with the separators of
/// [`split_items`].
pub fn split_fields(schema: &str) -> impl Iterator<Item = &str> {
    split_ascii_white(schema)
}

fn split_ascii_white(text: &str) -> impl Iterator<Item = &str> {
    // The set includes the vertical tab, unlike `char::is_ascii_whitespace`.
    text.split([' ', '\t', '\n', '\u{b}', '\u{c}', '\r'])
        .filter(|part| !part.is_empty())
}

/// Returns `true` for white space according to Java's `Character.isWhitespace`, which the connector
/// uses at the edges of path segments. It differs from Unicode's property in the no-break spaces.
pub(crate) fn is_white(c: char) -> bool {
    match c {
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{85}' => false,
        '\u{1c}'..='\u{1f}' => true,
        _ => c.is_whitespace(),
    }
}

/// Removes [`is_white`] characters from both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_white)
}

/// Returns `true` if the text has no characters other than white space.
pub(crate) fn is_blank(text: &str) -> bool {
    trim(text).is_empty()
}

/// Returns `true` if the text contains a character that `.` in the connector's patterns does not
/// match.
pub(crate) fn has_line_end(text: &str) -> bool {
    text.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascii_white_space_separates_items() {
        let parts: Vec<_> = split_items("  a-[k=1]\tb\r\n\u{b}c\u{a0}d ").collect();
        assert_eq!(parts, ["a-[k=1]", "b", "c\u{a0}d"]);
        assert_eq!(split_fields(" \t ").count(), 0);
    }

    #[test]
    fn white_space_is_java_white_space() {
        assert_eq!(trim("\u{a0}a\u{a0}"), "\u{a0}a\u{a0}");
        assert_eq!(trim("\u{1f} a\u{2003}"), "a");
        assert!(is_blank("\t\u{3000}"));
    }
}
