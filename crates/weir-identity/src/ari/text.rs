//! Escaping of texts.

use super::error::AriError;
use super::version::TextEncoding;

/// The token of a null text.
const NULL: &str = "#";
/// The token of an empty text.
const EMPTY: &str = "$";

/// Appends the token of a text. It is the same in both encodings, because it has neither a plus nor
/// a character above 0x7F, which some adapters cannot read.
pub(super) fn push_text(out: &mut String, text: Option<&str>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    match text {
        None => out.push_str(NULL),
        Some("") => out.push_str(EMPTY),
        Some(text) => {
            for byte in text.bytes() {
                if byte.is_ascii_alphanumeric() || b"._~-".contains(&byte) {
                    out.push(char::from(byte));
                } else {
                    out.push('%');
                    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                    out.push(char::from(DIGITS[usize::from(byte & 15)]));
                }
            }
        }
    }
}

/// Decodes a token; `None` is the null text.
pub(super) fn decode_text(token: &str, encoding: TextEncoding) -> Result<Option<String>, AriError> {
    match token {
        "" => return Err(AriError::Value { kind: 'S' }),
        NULL => return Ok(None),
        EMPTY => return Ok(Some(String::new())),
        _ => {}
    }
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let high = rest.next().and_then(digit);
                let low = rest.next().and_then(digit);
                let byte = high.zip(low).map(|(high, low)| high * 16 + low);
                bytes.push(byte.ok_or(AriError::Value { kind: 'S' })?);
            }
            b'+' if encoding == TextEncoding::Form => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| AriError::Value { kind: 'S' })
}

fn digit(byte: u8) -> Option<u8> {
    let value = char::from(byte).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive_both_encodings() {
        for text in [
            None,
            Some(""),
            Some("#"),
            Some("$"),
            Some("a+b c|é\r\n%"),
            Some("A-z.0_~"),
        ] {
            let mut token = String::new();
            push_text(&mut token, text);
            assert!(token.is_ascii() && !token.contains(['+', '|', ' ', '\r', '\n']));
            for encoding in [TextEncoding::Form, TextEncoding::Smart] {
                let decoded = decode_text(&token, encoding).unwrap();
                assert_eq!(decoded.as_deref(), text, "{token}");
            }
        }
    }

    #[test]
    fn plus_is_a_space_in_forms_only() {
        let decode = |encoding| decode_text("a+b%2B", encoding).unwrap().unwrap();
        assert_eq!(decode(TextEncoding::Form), "a b+");
        assert_eq!(decode(TextEncoding::Smart), "a+b+");
    }

    #[test]
    fn bad_escapes_are_rejected() {
        for token in ["", "%", "%4", "%zz", "a%+1", "%ff", "%c3x"] {
            let error = decode_text(token, TextEncoding::Smart);
            assert_eq!(error, Err(AriError::Value { kind: 'S' }), "{token}");
        }
    }
}
