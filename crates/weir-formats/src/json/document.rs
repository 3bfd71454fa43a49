//! Reads a complete value, to check it or to write it in compact form.

use super::decimal::NumberForm;
use super::error::{JsonError, JsonFault};
use super::scalar::{
    Number, append_number, append_string, checked_text, has_control, name, number, word,
};
use super::skip::{self, StringEnd, end_of};
use super::strings::StringRuns;

/// Maximum nesting of objects and arrays, including empty ones, as in the connector's parser.
pub(super) const DEPTH_MAX: usize = 1000;

const DEPTH_WORDS: usize = DEPTH_MAX.div_ceil(64);

/// Checks the value at `at` and returns its end. The text after it is not read.
pub(super) fn check(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    read(bytes, at, 0, &mut Checked::new(is_clean(bytes)))
}

/// Returns whether all strings without escapes are valid, whatever parts of `bytes` they are.
///
/// Quotes are ASCII, so a string in valid UTF-8 is valid UTF-8. Passes over the document at memory
/// speed are several times cheaper than two calls for each short string.
fn is_clean(bytes: &[u8]) -> bool {
    is_printable(bytes) || !has_control(bytes) && std::str::from_utf8(bytes).is_ok()
}

/// Returns whether all bytes are ASCII and none is a control character below DEL.
fn is_printable(bytes: &[u8]) -> bool {
    // As signed numbers, bytes beyond ASCII are below the blank too. Without an early end, the loop
    // takes several bytes at a time.
    !bytes.iter().fold(false, |found, &byte| {
        found | (i8::from_ne_bytes([byte]) < 0x20)
    })
}

/// Appends the value at `at` without white space, with numbers as the connector writes them.
///
/// Repeated members are all written. `depth` is the number of objects and arrays around the value.
pub(super) fn append_compact(
    bytes: &[u8],
    at: usize,
    depth: usize,
    form: NumberForm,
    out: &mut String,
) -> Result<(), JsonError> {
    read(bytes, at, depth, &mut Compact { form, out }).map(drop)
}

/// Receiver of the parts of a document, in order.
trait Sink {
    fn mark(&mut self, _mark: char) {}
    fn word(&mut self, _word: &'static str) {}
    fn number(&mut self, _bytes: &[u8], _at: usize, _number: Number) {}
    /// Receives a string; `at` is the byte after the opening quote.
    fn string(&mut self, bytes: &[u8], at: usize, end: StringEnd) -> Result<(), JsonError>;
    /// Returns the position after strings at `at` that need not be received, after a comma.
    fn skip_strings(&mut self, _bytes: &[u8], at: usize, _in_object: bool) -> usize {
        at
    }
}

/// Kinds of the containers around the current position, one bit each.
struct Levels {
    objects: [u64; DEPTH_WORDS],
    depth: usize,
    /// Number of containers around the value.
    outside: usize,
}

impl Levels {
    /// Returns an error if another container would exceed the maximum depth.
    fn check_depth(&self, at: usize) -> Result<(), JsonError> {
        if self.outside + self.depth >= DEPTH_MAX {
            return Err(JsonFault::Depth.at(at));
        }
        Ok(())
    }

    /// Enters a container. [`Self::check_depth`] must have succeeded.
    fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        self.objects[word] = if is_object {
            self.objects[word] | bit
        } else {
            self.objects[word] & !bit
        };
        self.depth += 1;
    }

    fn in_object(&self) -> bool {
        let top = self.depth - 1;
        self.objects[top / 64] >> (top % 64) & 1 == 1
    }
}

fn read(bytes: &[u8], at: usize, outside: usize, sink: &mut impl Sink) -> Result<usize, JsonError> {
    let mut levels = Levels {
        objects: [0; DEPTH_WORDS],
        depth: 0,
        outside,
    };
    let mut at = at;
    loop {
        // A value starts here.
        let opened = value(bytes, &mut at, &mut levels, sink)?;
        if opened {
            continue;
        }
        // A value has ended here; the containers around it may end too.
        loop {
            if levels.depth == 0 {
                return Ok(at);
            }
            at = skip::white_space(bytes, at);
            let (close, fault) = match levels.in_object() {
                true => (b'}', JsonFault::MemberEnd),
                false => (b']', JsonFault::ElementEnd),
            };
            match bytes.get(at) {
                Some(b',') => {
                    sink.mark(',');
                    at = sink.skip_strings(bytes, at + 1, levels.in_object());
                    at = skip::white_space(bytes, at);
                    if levels.in_object() {
                        at = member_name(bytes, at, sink)?;
                    }
                    break;
                }
                Some(&byte) if byte == close => {
                    sink.mark(char::from(close));
                    levels.depth -= 1;
                    at += 1;
                }
                Some(_) => return Err(fault.at(at)),
                None => return Err(end_of(bytes)),
            }
        }
    }
}

/// Reads a scalar, an empty container, or the opening bracket of another container. Returns `true`
/// in the last case.
fn value(
    bytes: &[u8],
    at: &mut usize,
    levels: &mut Levels,
    sink: &mut impl Sink,
) -> Result<bool, JsonError> {
    let start = *at;
    match bytes.get(start) {
        Some(b'"') => {
            let end = skip::string(bytes, start + 1)?;
            sink.string(bytes, start + 1, end)?;
            *at = end.quote + 1;
        }
        Some(b'-' | b'0'..=b'9') => {
            let number = number(bytes, start)?;
            sink.number(bytes, start, number);
            *at = number.end;
        }
        Some(&byte @ (b't' | b'f' | b'n')) => {
            let text = match byte {
                b't' => "true",
                b'f' => "false",
                _ => "null",
            };
            *at = word(bytes, start, text)?;
            sink.word(text);
        }
        Some(&byte @ (b'{' | b'[')) => {
            let is_object = byte == b'{';
            levels.check_depth(start)?;
            sink.mark(char::from(byte));
            *at = skip::white_space(bytes, start + 1);
            let close = if is_object { b'}' } else { b']' };
            if bytes.get(*at) == Some(&close) {
                sink.mark(char::from(close));
                *at += 1;
                return Ok(false);
            }
            levels.push(is_object);
            if is_object {
                *at = member_name(bytes, *at, sink)?;
            }
            return Ok(true);
        }
        Some(_) => return Err(JsonFault::Value.at(start)),
        None => return Err(end_of(bytes)),
    }
    Ok(false)
}

fn member_name(bytes: &[u8], at: usize, sink: &mut impl Sink) -> Result<usize, JsonError> {
    let (end, value) = name(bytes, at)?;
    sink.string(bytes, at + 1, end)?;
    sink.mark(':');
    Ok(value)
}

/// Sink that only checks.
struct Checked {
    /// Strings without escapes have been checked with the document.
    is_clean: bool,
    runs: StringRuns,
    /// Buffer for strings that have to be decoded to be checked.
    decoded: String,
}

impl Checked {
    fn new(is_clean: bool) -> Self {
        Self {
            is_clean,
            runs: StringRuns::default(),
            decoded: String::new(),
        }
    }
}

impl Sink for Checked {
    #[inline]
    fn string(&mut self, bytes: &[u8], at: usize, end: StringEnd) -> Result<(), JsonError> {
        if !end.escaped {
            return match self.is_clean {
                true => Ok(()),
                false => checked_text(&bytes[at..end.quote], at).map(drop),
            };
        }
        self.decoded.clear();
        append_string(bytes, at, end, &mut self.decoded)
    }

    #[inline]
    fn skip_strings(&mut self, bytes: &[u8], at: usize, in_object: bool) -> usize {
        match self.is_clean {
            true => self.runs.skip(bytes, at, in_object),
            false => at,
        }
    }
}

struct Compact<'a> {
    form: NumberForm,
    out: &'a mut String,
}

impl Sink for Compact<'_> {
    fn mark(&mut self, mark: char) {
        self.out.push(mark);
    }

    fn word(&mut self, word: &'static str) {
        self.out.push_str(word);
    }

    fn number(&mut self, bytes: &[u8], at: usize, number: Number) {
        let start = self.out.len();
        append_number(bytes, at, number, self.form, self.out);
        // JSON has no number for an infinite double; the connector's library writes its name in
        // quotes.
        if !number.is_whole && self.out.ends_with("Infinity") {
            self.out.insert(start, '"');
            self.out.push('"');
        }
    }

    fn string(&mut self, bytes: &[u8], at: usize, end: StringEnd) -> Result<(), JsonError> {
        self.out.push('"');
        let start = self.out.len();
        append_string(bytes, at, end, self.out)?;
        if end.escaped {
            let decoded = self.out.split_off(start);
            append_escaped(&decoded, self.out);
        }
        self.out.push('"');
        Ok(())
    }
}

/// Appends a text with the escapes that the connector writes, the minimum required by JSON.
fn append_escaped(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..'\u{20}' => {
                let code = c as usize;
                out.push_str("\\u00");
                out.push(char::from(HEX[code >> 4]));
                out.push(char::from(HEX[code & 15]));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Elements and members that are skipped together.
    const ELEMENTS: &[u8] =
        br#""a","b,:","","c","dddddddddddddddd","e","f","g","h","i","j","k","l","#;
    const MEMBERS: &[u8] =
        br#""a":"b,:","":"c","dddddddddddddddd":"e","f":"g","h":"i","j":"k","l":"","#;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Passes over the whole document change neither result nor position of a fault.
        #[test]
        fn clean_documents_are_checked_as_their_strings(
            pieces in vec(prop::sample::select(vec![
                &b"\""[..], b"\"a\"", b"\"\xc3\xa9\"", b"\"\xc3\"", b"\xa9",
                b"\"\\n\"", b"\"\\u00e9\"",
                b"\\", b"\x01", b"\n", b" ", b",", b":", b"[", b"]", b"{", b"}",
                b"\"k\":", b"1", b"-0.5e3", b"01", b"true", b"nul", ELEMENTS, ELEMENTS, MEMBERS,
            ]), 0..12),
            opening in prop::sample::select(vec!["", "[", "{\"m\":", "[\"x\",", "{\"m\":1,"]),
            closing in prop::sample::select(vec!["", "]", "}", ",1]"]),
        ) {
            let bytes = [opening.as_bytes(), &pieces.concat(), closing.as_bytes()].concat();
            let by_string = read(&bytes, 0, 0, &mut Checked::new(false));
            prop_assert_eq!(check(&bytes, 0), by_string);
        }
    }
}
