//! Skips parts of a document that are not wanted, without decoding.
//!
//! Only brackets and strings are matched; the text between them is not checked.

use super::block::{BLOCK_BYTES, Blocks, quote_or_backslash};
use super::error::{JsonError, JsonFault};

/// Returns the position of the first byte from `at` on that is not white space.
#[inline]
pub(super) fn white_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// End of a string.
#[derive(Clone, Copy)]
pub(super) struct StringEnd {
    /// Position of the closing quote.
    pub(super) quote: usize,
    /// A backslash occurs before.
    pub(super) escaped: bool,
}

/// Finds the end of a string; `at` is the byte after its opening quote.
#[inline]
pub(super) fn string(bytes: &[u8], mut at: usize) -> Result<StringEnd, JsonError> {
    let mut escaped = false;
    loop {
        let found = quote_or_backslash(bytes, at).ok_or_else(|| end_of(bytes))?;
        if bytes[found] == b'"' {
            return Ok(StringEnd {
                quote: found,
                escaped,
            });
        }
        escaped = true;
        at = found + 2;
        if at > bytes.len() {
            return Err(end_of(bytes));
        }
    }
}

/// Returns the position after the value at `at`.
#[inline]
pub(super) fn value(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    match bytes.get(at) {
        Some(b'"') => Ok(string(bytes, at + 1)?.quote + 1),
        Some(b'{' | b'[') => container(bytes, at + 1),
        Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => Ok(word(bytes, at)),
        Some(_) => Err(JsonFault::Value.at(at)),
        None => Err(end_of(bytes)),
    }
}

/// Returns the end of a number, `true`, `false` or `null`.
#[inline]
fn word(bytes: &[u8], at: usize) -> usize {
    let ends = |b: &u8| matches!(b, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
    let length = bytes[at..].iter().position(ends);
    length.map_or(bytes.len(), |length| at + length)
}

/// Returns the position after the closing bracket of an object or array; `at` is any position
/// directly inside it, but not inside a string.
pub(super) fn container(bytes: &[u8], mut at: usize) -> Result<usize, JsonError> {
    let mut blocks = Blocks::default();
    let mut depth = 1_u64;
    while at < bytes.len() {
        let found = blocks.read(bytes, at);
        let closes = u64::from(found.closes.count_ones());
        if closes < depth {
            depth = depth + u64::from(found.opens.count_ones()) - closes;
            at += BLOCK_BYTES;
            continue;
        }
        let mut brackets = found.opens | found.closes;
        while brackets != 0 {
            let bit = brackets.trailing_zeros();
            if found.opens >> bit & 1 == 1 {
                depth += 1;
            } else {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + bit as usize + 1);
                }
            }
            brackets &= brackets - 1;
        }
        at += BLOCK_BYTES;
    }
    Err(end_of(bytes))
}

/// Position in an object or array.
pub(super) enum NextElement {
    /// After a comma.
    Part(usize),
    /// After the closing bracket.
    End(usize),
}

/// Skips `count` elements of an array and their commas; `at` is a position inside the first
/// element.
pub(super) fn elements(
    bytes: &[u8],
    mut at: usize,
    mut count: u32,
) -> Result<NextElement, JsonError> {
    let mut blocks = Blocks::default();
    let mut depth = 0_u64;
    while at < bytes.len() {
        let found = blocks.read(bytes, at);
        if depth == 0 && found.opens | found.closes == 0 {
            let commas = found.commas.count_ones();
            if commas < count {
                count -= commas;
                at += BLOCK_BYTES;
                continue;
            }
        }
        let mut punctuation = found.opens | found.closes | found.commas;
        while punctuation != 0 {
            let bit = punctuation.trailing_zeros();
            let position = at + bit as usize;
            if found.commas >> bit & 1 == 1 {
                count -= u32::from(depth == 0);
                if count == 0 {
                    return Ok(NextElement::Part(position + 1));
                }
            } else if found.opens >> bit & 1 == 1 {
                depth += 1;
            } else if depth > 0 {
                depth -= 1;
            } else if bytes[position] == b']' {
                return Ok(NextElement::End(position + 1));
            } else {
                return Err(JsonFault::ElementEnd.at(position));
            }
            punctuation &= punctuation - 1;
        }
        at += BLOCK_BYTES;
    }
    Err(end_of(bytes))
}

pub(super) fn end_of(bytes: &[u8]) -> JsonError {
    JsonFault::End.at(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(text: &str) -> Option<&str> {
        value(text.as_bytes(), 0).ok().map(|end| &text[end..])
    }

    #[test]
    fn skip_value_finds_its_end() {
        let long = format!("[{}],x", r#"{"a\\":"}]\"","b":[1,{}]},"#.repeat(20) + "0");
        let rows = [
            (r#""a"b"#, "b"),
            (r#""a\"b\\"c"#, "c"),
            ("12.5e3,", ","),
            ("true}", "}"),
            ("null", ""),
            ("[]]", "]"),
            (r#"{"a":"}"} "#, " "),
            (long.as_str(), ",x"),
        ];
        for (text, expected) in rows {
            assert_eq!(rest(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "\"a",
            "\"a\\\"",
            "\"\\",
            "[1",
            "{\"a\":[}",
            "x",
            "]",
            "+1",
        ] {
            assert_eq!(rest(text), None, "{text}");
        }
    }

    #[test]
    fn skip_elements_counts_commas() {
        let text = format!(r#"{}"a,b",[1,2],{{"x":[3,4]}},5,6]rest"#, "7,".repeat(100));
        let skipped = |count| match elements(text.as_bytes(), 0, count) {
            Ok(NextElement::Part(at)) => text[at..].chars().next(),
            Ok(NextElement::End(at)) => {
                assert_eq!(&text[at..], "rest");
                None
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(skipped(1), Some('7'));
        assert_eq!(skipped(99), Some('7'));
        assert_eq!(skipped(100), Some('"'));
        assert_eq!(skipped(101), Some('['));
        assert_eq!(skipped(102), Some('{'));
        assert_eq!(skipped(103), Some('5'));
        assert_eq!(skipped(104), Some('6'));
        assert_eq!(skipped(105), None);
        assert_eq!(skipped(u32::MAX), None);
        assert!(elements(b"1,2}", 0, 5).is_err());
        assert!(elements(b"1,2", 0, 5).is_err());
    }
}
