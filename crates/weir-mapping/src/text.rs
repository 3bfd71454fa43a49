//! White space rules shared by the parsers: what Java and the metadata adapter call blank.

/// Splits a subscription's group into item names, as the stock metadata adapter does.
///
/// Separators are the white space characters of ASCII, the only ones the adapter splits at; a
/// blank group yields nothing.
pub fn split_items(group: &str) -> impl Iterator<Item = &str> {
    split_ascii_white(group)
}

/// Splits a subscription's schema into field names; same separators as [`split_items`].
pub fn split_fields(schema: &str) -> impl Iterator<Item = &str> {
    split_ascii_white(schema)
}

fn split_ascii_white(text: &str) -> impl Iterator<Item = &str> {
    // Vertical tab belongs to the set although `char::is_ascii_whitespace` leaves it out.
    text.split([' ', '\t', '\n', '\u{b}', '\u{c}', '\r'])
        .filter(|part| !part.is_empty())
}

/// White space as the connector tests it at the edges of a path segment: Java's
/// `Character.isWhitespace`, which differs from Unicode's property by the no-break spaces.
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

/// True if nothing but white space is left.
pub(crate) fn is_blank(text: &str) -> bool {
    trim(text).is_empty()
}

/// The characters that the dot of the connector's patterns does not match.
pub(crate) fn has_line_end(text: &str) -> bool {
    text.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_ascii_white_space_only() {
        let parts: Vec<_> = split_items("  a-[k=1]\tb\r\n\u{b}c\u{a0}d ").collect();
        assert_eq!(parts, ["a-[k=1]", "b", "c\u{a0}d"]);
        assert_eq!(split_fields(" \t ").count(), 0);
    }

    #[test]
    fn no_break_space_is_not_white_but_unit_separator_is() {
        assert_eq!(trim("\u{a0}a\u{a0}"), "\u{a0}a\u{a0}");
        assert_eq!(trim("\u{1f} a\u{2003}"), "a");
        assert!(is_blank("\t\u{3000}"));
    }
}
