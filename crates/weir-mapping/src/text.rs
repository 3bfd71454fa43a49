//! Splits item groups and field schemas as the metadata adapter does.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascii_white_space_separates_items() {
        let parts: Vec<_> = split_items("  a-[k=1]\tb\r\n\u{b}c\u{a0}d ").collect();
        assert_eq!(parts, ["a-[k=1]", "b", "c\u{a0}d"]);
        assert_eq!(split_fields(" \t ").count(), 0);
    }
}
