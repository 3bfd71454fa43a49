//! A JSON text as a flat list of its values, in text order.
//!
//! The whole text is validated. It is also recorded whether a patch can reproduce the text; see
//! [`Document::patchable`].

use super::number::is_preserved;
use crate::text::clean_prefix;

/// Maximum nesting depth.
pub(super) const DEPTH_MAX: usize = 64;

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonNodeType {
    Object,
    Array,
    /// A string, a number, `true`, `false` or `null`.
    Scalar,
}

/// One value; its nested values follow it in the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct DocumentNode {
    pub(super) kind: JsonNodeType,
    /// Range in the text, including brackets and quotes.
    start: u32,
    end: u32,
    /// Range of the name without quotes, if it is a member of an object.
    name_start: u32,
    name_end: u32,
    /// Index after the last nested node.
    pub(super) next: u32,
}

/// A validated JSON text.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// All nodes; each precedes its nested nodes.
    pub(super) nodes: Vec<DocumentNode>,
    /// Names of all objects are valid in patch paths and in a stable order.
    names_fit: bool,
    /// All numbers are in the format that every client would write.
    numbers_fit: bool,
}

impl<'a> Document<'a> {
    /// Parses a text. Returns `None` if it is not JSON, nested too deeply, or too long.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        u32::try_from(text.len()).ok()?;
        let mut parser = Parser {
            bytes: text.as_bytes(),
            at: 0,
            document: Self {
                text,
                nodes: Vec::with_capacity(16),
                names_fit: true,
                numbers_fit: true,
            },
            order: Vec::new(),
        };
        parser.white();
        parser.value((0, 0), 0)?;
        parser.white();
        (parser.at == text.len()).then_some(parser.document)
    }

    /// Returns `true` if patches can refer to its parts: it is an object or an array, and the
    /// members of its objects have plain, unique names in an order that all clients preserve.
    pub(super) fn patchable(&self) -> bool {
        self.names_fit && self.nodes[0].kind != JsonNodeType::Scalar
    }

    /// Returns `true` if a client that parses and writes the text preserves all numbers.
    pub(super) fn numbers_fit(&self) -> bool {
        self.numbers_fit
    }

    /// Returns the text of a value.
    pub(super) fn value(&self, node: u32) -> &'a str {
        let node = &self.nodes[node as usize];
        &self.text[node.start as usize..node.end as usize]
    }

    /// Returns the name of a member as written, without quotes.
    pub(super) fn name(&self, node: u32) -> &'a str {
        let node = &self.nodes[node as usize];
        &self.text[node.name_start as usize..node.name_end as usize]
    }

    /// Returns the direct children of a value.
    pub(super) fn children(&self, node: u32) -> impl Iterator<Item = u32> + Clone {
        let end = self.nodes[node as usize].next;
        let first = Some(node + 1).filter(|first| *first < end);
        std::iter::successors(first, move |child| {
            Some(self.nodes[*child as usize].next).filter(|next| *next < end)
        })
    }

    /// Appends a value without white space between its parts.
    pub(super) fn push_compact(&self, node: u32, out: &mut String) {
        let (open, close) = match self.nodes[node as usize].kind {
            JsonNodeType::Scalar => return out.push_str(self.value(node)),
            JsonNodeType::Object => ('{', '}'),
            JsonNodeType::Array => ('[', ']'),
        };
        out.push(open);
        for (at, child) in self.children(node).enumerate() {
            if at > 0 {
                out.push(',');
            }
            if open == '{' {
                out.push('"');
                out.push_str(self.name(child));
                out.push_str("\":");
            }
            self.push_compact(child, out);
        }
        out.push(close);
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    document: Document<'a>,
    /// Nodes of an object's members, to find duplicate names.
    order: Vec<u32>,
}

impl Parser<'_> {
    fn white(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn value(&mut self, name: (usize, usize), depth: usize) -> Option<()> {
        let index = self.document.nodes.len();
        let start = self.at;
        self.document.nodes.push(DocumentNode {
            kind: JsonNodeType::Scalar,
            start: start as u32,
            end: 0,
            name_start: name.0 as u32,
            name_end: name.1 as u32,
            next: 0,
        });
        let kind = match self.bytes.get(start)? {
            b'{' if depth < DEPTH_MAX => {
                self.object(index as u32, depth)?;
                JsonNodeType::Object
            }
            b'[' if depth < DEPTH_MAX => {
                self.array(depth)?;
                JsonNodeType::Array
            }
            b'"' => {
                self.string()?;
                JsonNodeType::Scalar
            }
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => self.number()?,
        };
        let next = self.document.nodes.len() as u32;
        let node = &mut self.document.nodes[index];
        (node.kind, node.end, node.next) = (kind, self.at as u32, next);
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<JsonNodeType> {
        self.bytes[self.at..].starts_with(word.as_bytes()).then(|| {
            self.at += word.len();
            JsonNodeType::Scalar
        })
    }

    fn object(&mut self, index: u32, depth: usize) -> Option<()> {
        self.at += 1;
        self.white();
        if self.take(b'}').is_some() {
            return Some(());
        }
        // Latest numeric name, and `true` if there was another name.
        let (mut number, mut words) = (None, false);
        let mut members = 0_usize;
        loop {
            let from = self.at + 1;
            (self.bytes.get(self.at) == Some(&b'"')).then_some(())?;
            self.string()?;
            let name = (from, self.at - 1);
            self.document.names_fit &= name_fits(&self.bytes[name.0..name.1]);
            match array_index(&self.bytes[name.0..name.1]) {
                Some(index) => {
                    self.document.names_fit &= !words && number.is_none_or(|last| last < index);
                    number = Some(index);
                }
                None => words = true,
            }
            self.white();
            self.take(b':')?;
            self.white();
            self.value(name, depth + 1)?;
            members += 1;
            self.white();
            if self.take(b'}').is_some() {
                break;
            }
            self.take(b',')?;
            self.white();
        }
        self.document.names_fit = self.document.names_fit && !self.repeats(index, members);
        Some(())
    }

    /// Returns `true` if an object has duplicate names. All its members must have been parsed.
    fn repeats(&mut self, object: u32, members: usize) -> bool {
        if members < 2 {
            return false;
        }
        let document = &mut self.document;
        document.nodes[object as usize].next = document.nodes.len() as u32;
        let document = &self.document;
        self.order.clear();
        self.order.extend(document.children(object));
        self.order.sort_unstable_by_key(|node| document.name(*node));
        self.order
            .windows(2)
            .any(|pair| document.name(pair[0]) == document.name(pair[1]))
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        self.white();
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value((0, 0), depth + 1)?;
            self.white();
            if self.take(b']').is_some() {
                return Some(());
            }
            self.take(b',')?;
            self.white();
        }
    }

    /// Parses from the opening quote to the closing one.
    fn string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            self.at += clean_prefix(&self.bytes[self.at..], |byte| {
                byte < 0x20 || byte == b'"' || byte == b'\\'
            });
            match self.bytes.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        let kind = self.bytes.get(self.at + 1)?;
        self.at += 2;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => match self.hex()? {
                // Surrogates are valid only in pairs.
                0xd800..=0xdbff => {
                    self.take(b'\\')?;
                    self.take(b'u')?;
                    (0xdc00..0xe000).contains(&self.hex()?).then_some(())
                }
                0xdc00..=0xdfff => None,
                _ => Some(()),
            },
            _ => None,
        }
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |code, digit| {
            Some(code << 4 | char::from(*digit).to_digit(16)?)
        })
    }

    fn digits(&mut self) -> Option<usize> {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(count)
    }

    fn number(&mut self) -> Option<JsonNodeType> {
        let start = self.at;
        let _ = self.take(b'-');
        let leading_zero = self.bytes.get(self.at) == Some(&b'0');
        if self.digits()? > 1 && leading_zero {
            return None;
        }
        if self.take(b'.').is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.document.numbers_fit &= is_preserved(&self.bytes[start..self.at]);
        Some(JsonNodeType::Scalar)
    }
}

/// Returns `true` if all clients accept the name in a path: not empty, without escapes, and not one
/// of those that JavaScript libraries reject.
fn name_fits(name: &[u8]) -> bool {
    !matches!(name, b"" | b"__proto__" | b"constructor" | b"prototype") && !name.contains(&b'\\')
}

/// Returns the number that a name represents. JavaScript puts such members first, in ascending
/// order.
fn array_index(name: &[u8]) -> Option<u32> {
    let first = name.first()?;
    if !first.is_ascii_digit() || (*first == b'0' && name.len() > 1) {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compact(text: &str) -> Option<String> {
        let document = Document::parse(text)?;
        let mut out = String::new();
        document.push_compact(0, &mut out);
        Some(out)
    }

    #[test]
    fn documents_are_validated_completely() {
        for (text, expected) in [
            (" [ ] ", "[]"),
            ("{ }", "{}"),
            ("12", "12"),
            (r#" "a\"b" "#, r#""a\"b""#),
            (
                "{\"a\" : [1 ,\t-2.5e+3, {\"b\":null}],\n\"c\":\"x y\" }",
                r#"{"a":[1,-2.5e+3,{"b":null}],"c":"x y"}"#,
            ),
            (
                r#"["\u00e9\ud83d\ude00","é😀"]"#,
                r#"["\u00e9\ud83d\ude00","é😀"]"#,
            ),
        ] {
            assert_eq!(compact(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            " ",
            "{",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "01",
            "1.",
            "1e",
            "-",
            "+1",
            ".5",
            "nul",
            "tru",
            "\"a",
            "\"\\x\"",
            "\"\\ud83d\"",
            "\"\\ude00\"",
            "\"a\nb\"",
            "1 2",
            "[1]]",
            "\"\\ud83d\\u0041\"",
            "\"\\u12\"",
        ] {
            assert_eq!(compact(text), None, "{text}");
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(compact(&deep(DEPTH_MAX)).is_some());
        assert!(compact(&deep(DEPTH_MAX + 1)).is_none());
    }

    #[test]
    fn unpatchable_documents_are_detected() {
        for (text, fits) in [
            (r#"{"a":1,"b":{"a":1}}"#, true),
            (r#"{"a":1,"b":2,"a":3}"#, false),
            (r#"{"b":{"a":1,"a":1}}"#, false),
            (r#"{"":1}"#, false),
            (r#"{"\u0061":1}"#, false),
            (r#"{"__proto__":1}"#, false),
            (r#"{"1":0,"2":0,"10":0,"a":0}"#, true),
            (r#"{"2":0,"1":0}"#, false),
            (r#"{"a":0,"1":0}"#, false),
            (r#"{"a":0,"01":0,"-1":0,"4294967296":0}"#, true),
            ("[1,2]", true),
            ("12", false),
            (r#""{}""#, false),
        ] {
            let document = Document::parse(text).expect(text);
            assert_eq!(document.patchable(), fits, "{text}");
        }
    }
}
