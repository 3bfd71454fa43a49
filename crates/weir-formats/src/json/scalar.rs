//! Strict parsers for strings, numbers and words of a JSON text.

use super::decimal::{NumberForm, append_exact};
use super::error::{JsonError, JsonFault};
use super::skip::{self, StringEnd, end_of};
use crate::number::append_json_double;

/// Maximum length of a number, as in the connector's parser.
const NUMBER_BYTES_MAX: usize = 1000;

/// Appends the text of a string; `at` is the byte after the opening quote.
///
/// An escaped unpaired surrogate becomes U+FFFD.
pub(super) fn append_string(
    bytes: &[u8],
    at: usize,
    end: StringEnd,
    out: &mut String,
) -> Result<(), JsonError> {
    let raw = checked_text(&bytes[at..end.quote], at)?;
    if !end.escaped {
        out.push_str(raw);
        return Ok(());
    }
    let mut rest = raw;
    while let Some(backslash) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..backslash]);
        let sequence = &rest[backslash + 1..];
        let position = end.quote - sequence.len();
        let (c, length) = escape(sequence).ok_or_else(|| JsonFault::Escape.at(position))?;
        out.push(c);
        rest = &sequence[length..];
    }
    out.push_str(rest);
    Ok(())
}

/// Returns the bytes of a string as text, with escapes.
pub(super) fn checked_text(raw: &[u8], at: usize) -> Result<&str, JsonError> {
    if has_control(raw) {
        let control = raw.iter().position(|&b| b < 0x20).unwrap_or(0);
        return Err(JsonFault::Control.at(at + control));
    }
    std::str::from_utf8(raw).map_err(|e| JsonFault::Encoding.at(at + e.valid_up_to()))
}

/// Returns whether a control character occurs.
pub(super) fn has_control(bytes: &[u8]) -> bool {
    // Without an early exit, this loop is vectorized.
    bytes.iter().fold(false, |any, &b| any | (b < 0x20))
}

/// Returns the character of an escape sequence and the length of the sequence after the backslash.
fn escape(sequence: &str) -> Option<(char, usize)> {
    let c = match sequence.as_bytes().first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(sequence),
        _ => return None,
    };
    Some((c, 1))
}

fn unicode_escape(sequence: &str) -> Option<(char, usize)> {
    let first = hex(sequence)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 5));
    }
    // A surrogate: with its second half it is one character.
    let second = sequence[5..].strip_prefix('\\').and_then(hex);
    let pair = second.filter(|second| (0xdc00..0xe000).contains(second) && first < 0xdc00);
    Some(match pair {
        Some(second) => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code)?, 11)
        }
        None => (char::REPLACEMENT_CHARACTER, 5),
    })
}

/// Returns the value of `u` and four hexadecimal digits.
fn hex(sequence: &str) -> Option<u32> {
    let digits = sequence.strip_prefix('u')?.get(..4)?;
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok())?
}

/// A number in a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// Position after the number.
    pub(super) end: usize,
    /// The number has neither fraction nor exponent.
    pub(super) is_whole: bool,
}

/// Parses the number at `at`.
pub(super) fn number(bytes: &[u8], at: usize) -> Result<Number, JsonError> {
    let digits = |from: usize| {
        let rest = &bytes[from.min(bytes.len())..];
        from + rest.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let fault = |at| Err(JsonFault::Number.at(at));
    let start = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut end = digits(start);
    if end == start || bytes[start] == b'0' && end > start + 1 {
        return fault(start);
    }
    let mut is_whole = true;
    if bytes.get(end) == Some(&b'.') {
        is_whole = false;
        let fraction = end + 1;
        end = digits(fraction);
        if end == fraction {
            return fault(end);
        }
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        is_whole = false;
        let sign = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        let exponent = end + 1 + usize::from(sign);
        end = digits(exponent);
        if end == exponent {
            return fault(end);
        }
    }
    ends_here(bytes, end, JsonFault::Number)?;
    if end - at > NUMBER_BYTES_MAX {
        return Err(JsonFault::LongNumber.at(at));
    }
    Ok(Number { end, is_whole })
}

/// Appends the text that the connector writes for a number.
pub(super) fn append_number(
    bytes: &[u8],
    at: usize,
    number: Number,
    form: NumberForm,
    out: &mut String,
) {
    // A parsed number is ASCII.
    let text = std::str::from_utf8(&bytes[at..number.end]).unwrap_or_default();
    match text {
        "-0" => out.push('0'),
        whole if number.is_whole => out.push_str(whole),
        exact if form == NumberForm::Exact => append_exact(exact, out),
        double => append_json_double(double, out),
    }
}

/// Parses `true`, `false` or `null`. Returns the position after it.
pub(super) fn word(bytes: &[u8], at: usize, word: &str) -> Result<usize, JsonError> {
    if !bytes[at..].starts_with(word.as_bytes()) {
        return Err(JsonFault::Value.at(at));
    }
    ends_here(bytes, at + word.len(), JsonFault::Value)?;
    Ok(at + word.len())
}

fn ends_here(bytes: &[u8], at: usize, fault: JsonFault) -> Result<(), JsonError> {
    match bytes.get(at) {
        None | Some(b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t') => Ok(()),
        Some(_) => Err(fault.at(at)),
    }
}

/// Parses a member name and the colon. Returns the end of the name, for [`append_string`], and the
/// position of the value.
#[inline]
pub(super) fn name(bytes: &[u8], at: usize) -> Result<(StringEnd, usize), JsonError> {
    match bytes.get(at) {
        Some(b'"') => {}
        Some(_) => return Err(JsonFault::Name.at(at)),
        None => return Err(end_of(bytes)),
    }
    let end = skip::string(bytes, at + 1)?;
    let colon = skip::white_space(bytes, end.quote + 1);
    match bytes.get(colon) {
        Some(b':') => Ok((end, skip::white_space(bytes, colon + 1))),
        Some(_) => Err(JsonFault::Colon.at(colon)),
        None => Err(end_of(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<String, JsonFault> {
        let bytes = text.as_bytes();
        let mut out = String::new();
        let end = skip::string(bytes, 1).map_err(|e| e.fault)?;
        append_string(bytes, 1, end, &mut out).map_err(|e| e.fault)?;
        Ok(out)
    }

    #[test]
    fn escape_sequences_are_decoded() {
        let rows = [
            (r#""""#, ""),
            (r#""a\"\\\/\b\f\n\r\tz""#, "a\"\\/\u{8}\u{c}\n\r\tz"),
            (r#""\u0041\u00e9\u20AC""#, "Aé€"),
            (r#""\ud83d\ude00!""#, "😀!"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\u0000""#, "\0"),
            ("\"é\u{7f}\u{2028}\"", "é\u{7f}\u{2028}"),
        ];
        for (text, expected) in rows {
            assert_eq!(decoded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn malformed_strings_are_errors() {
        let rows = [
            (r#""\x""#, JsonFault::Escape),
            (r#""\u12""#, JsonFault::Escape),
            (r#""\u12é4""#, JsonFault::Escape),
            (r#""\u+123""#, JsonFault::Escape),
            (r#""\ud83d\u12""#, JsonFault::Escape),
            ("\"a\nb\"", JsonFault::Control),
            ("\"a", JsonFault::End),
            ("\"a\\\"", JsonFault::End),
        ];
        for (text, expected) in rows {
            assert_eq!(decoded(text), Err(expected), "{text}");
        }
        let end = StringEnd {
            quote: 3,
            escaped: false,
        };
        let error = append_string(b"\"a\xff\"", 1, end, &mut String::new()).unwrap_err();
        assert_eq!(error, JsonFault::Encoding.at(2));
    }

    #[test]
    fn numbers_are_parsed_strictly() {
        for valid in ["0", "-0", "10", "-1.5", "0.0", "1e5", "1E+5", "1.25e-10"] {
            let read = number(valid.as_bytes(), 0).unwrap();
            assert_eq!(read.end, valid.len());
            let is_whole = !valid.contains(['.', 'e', 'E']);
            assert_eq!(read.is_whole, is_whole, "{valid}");
        }
        for invalid in [
            "-", "01", "1.", ".5", "1e", "1e+", "-a", "1.e5", "0x1", "1_0", "NaN", "+1", "1\"",
        ] {
            assert!(number(invalid.as_bytes(), 0).is_err(), "{invalid}");
        }
        let long = "1".repeat(1001);
        assert_eq!(
            number(long.as_bytes(), 0).unwrap_err().fault,
            JsonFault::LongNumber
        );
        assert!(number(&long.as_bytes()[1..], 0).is_ok());
    }
}
