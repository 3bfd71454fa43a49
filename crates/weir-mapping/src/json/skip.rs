//! Moving over parts of a document that nobody wants, without looking into them.
//!
//! Brackets and strings are matched; what stands between them is not checked.

use super::block::{BLOCK_BYTES, Blocks, quote_or_backslash};
use super::error::{JsonError, JsonFault};

/// Position of the first byte from `at` on that is not white space.
#[inline]
pub(super) fn white(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Where a string ends.
#[derive(Clone, Copy)]
pub(super) struct StringEnd {
    /// Position of the closing quote.
    pub(super) quote: usize,
    /// True if a backslash occurs before.
    pub(super) escaped: bool,
}

/// Finds the end of a string from the byte after its opening quote.
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

/// From the first byte of a value to the byte after it.
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

/// The end of a number, `true`, `false` or `null`.
#[inline]
fn word(bytes: &[u8], at: usize) -> usize {
    let ends = |b: &u8| matches!(b, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
    let length = bytes[at..].iter().position(ends);
    length.map_or(bytes.len(), |length| at + length)
}

/// From any place directly inside an object or array, but not inside a string, to the byte after
/// its closing bracket.
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

/// What moving over elements of an array came to.
pub(super) enum Elements {
    /// The byte after the last comma passed.
    Passed(usize),
    /// The array ended before; the byte after its bracket.
    Ended(usize),
}

/// From a place inside the first of them over `count` elements of an array and their commas.
pub(super) fn elements(bytes: &[u8], mut at: usize, mut count: u32) -> Result<Elements, JsonError> {
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
        let mut marks = found.opens | found.closes | found.commas;
        while marks != 0 {
            let bit = marks.trailing_zeros();
            let here = at + bit as usize;
            if found.commas >> bit & 1 == 1 {
                count -= u32::from(depth == 0);
                if count == 0 {
                    return Ok(Elements::Passed(here + 1));
                }
            } else if found.opens >> bit & 1 == 1 {
                depth += 1;
            } else if depth > 0 {
                depth -= 1;
            } else if bytes[here] == b']' {
                return Ok(Elements::Ended(here + 1));
            } else {
                return Err(JsonFault::ElementEnd.at(here));
            }
            marks &= marks - 1;
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
    fn values_are_passed_over_whole() {
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
    fn elements_are_counted_by_their_commas() {
        let text = format!(r#"{}"a,b",[1,2],{{"x":[3,4]}},5,6]rest"#, "7,".repeat(100));
        let passed = |count| match elements(text.as_bytes(), 0, count) {
            Ok(Elements::Passed(at)) => text[at..].chars().next(),
            Ok(Elements::Ended(at)) => {
                assert_eq!(&text[at..], "rest");
                None
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(passed(1), Some('7'));
        assert_eq!(passed(99), Some('7'));
        assert_eq!(passed(100), Some('"'));
        assert_eq!(passed(101), Some('['));
        assert_eq!(passed(102), Some('{'));
        assert_eq!(passed(103), Some('5'));
        assert_eq!(passed(104), Some('6'));
        assert_eq!(passed(105), None);
        assert_eq!(passed(u32::MAX), None);
        assert!(elements(b"1,2}", 0, 5).is_err());
        assert!(elements(b"1,2", 0, 5).is_err());
    }
}
