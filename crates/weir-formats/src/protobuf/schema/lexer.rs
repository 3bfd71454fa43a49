//! Splits `.proto` text into tokens.

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Identifier or keyword.
    Word(&'a str),
    /// Number without sign.
    Number(&'a str),
    /// Content of a quoted string, with escapes resolved.
    Text(Vec<u8>),
    /// Any other character.
    Mark(char),
    End,
}

/// Reader of tokens.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    pub(super) line: u32,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            text,
            at: 0,
            line: 1,
        }
    }

    /// Returns the next token.
    pub(super) fn token(&mut self) -> Result<Token<'a>, &'static str> {
        self.skip_white()?;
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        let second = rest.as_bytes().get(1).copied().unwrap_or_default();
        match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                Ok(Token::Word(self.take(rest.find(|c| !is_part(c)))))
            }
            '0'..='9' => Ok(Token::Number(self.number(rest))),
            '.' if second.is_ascii_digit() => Ok(Token::Number(self.number(rest))),
            '"' | '\'' => self.quoted(first),
            _ => {
                self.at += first.len_utf8();
                Ok(Token::Mark(first))
            }
        }
    }

    /// Takes text up to a position in the rest, or all of it.
    fn take(&mut self, end: Option<usize>) -> &'a str {
        let rest = &self.text[self.at..];
        let taken = &rest[..end.unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn number(&mut self, rest: &'a str) -> &'a str {
        let mut before = ' ';
        let is_hex = rest.starts_with("0x") || rest.starts_with("0X");
        let end = rest.find(|c: char| {
            let is_exponent_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !is_hex;
            before = c;
            !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || is_exponent_sign)
        });
        self.take(end)
    }

    fn quoted(&mut self, quote: char) -> Result<Token<'a>, &'static str> {
        let content = &self.text[self.at + 1..];
        let mut is_escaped = false;
        for (i, c) in content.char_indices() {
            match c {
                '\n' => break,
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                _ if c == quote => {
                    self.at += i + 2;
                    return Ok(Token::Text(unescape(&content.as_bytes()[..i])));
                }
                _ => {}
            }
        }
        Err("string without closing quote")
    }

    /// Skips white space and comments.
    fn skip_white(&mut self) -> Result<(), &'static str> {
        loop {
            let rest = &self.text[self.at..];
            let skipped = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(comment) = rest.strip_prefix("/*") {
                comment.find("*/").ok_or("comment without end")? + 4
            } else {
                rest.find(|c: char| !c.is_ascii_whitespace() && c != '\u{b}')
                    .unwrap_or(rest.len())
            };
            if skipped == 0 {
                return Ok(());
            }
            self.line += rest[..skipped].matches('\n').count() as u32;
            self.at += skipped;
        }
    }
}

/// Resolves the escape sequences of strings in the Protobuf language; malformed ones stay.
pub(super) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&kind) = text.get(at) else {
            out.push(byte);
            return out;
        };
        at += 1;
        let digits = |from: usize, count: usize, radix: u32| {
            let is_digit = |b: &&u8| char::from(**b).is_digit(radix);
            let length = text[from..].iter().take(count).take_while(is_digit).count();
            let value = text[from..from + length].iter().fold(0, |value, b| {
                value * radix + char::from(*b).to_digit(radix).unwrap_or(0)
            });
            (value, length)
        };
        match kind {
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let (value, length) = digits(at - 1, 3, 8);
                out.push(value as u8);
                at += length - 1;
            }
            b'x' | b'X' => {
                let (value, length) = digits(at, 2, 16);
                out.push(value as u8);
                at += length;
            }
            b'u' | b'U' => {
                let (value, length) = digits(at, if kind == b'u' { 4 } else { 8 }, 16);
                let c = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend(c.encode_utf8(&mut [0; 4]).bytes());
                at += length;
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text);
        let next = || match lexer.token().expect("a token") {
            Token::End => None,
            token => Some(token),
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn words_numbers_and_comments_are_split() {
        let text = "a.b /* x\n*/=0x1F;// end\n-1.5e-3 .5 \"q\\\"\\x41\\101\\u00e9\"'s'";
        let expected = [
            Token::Word("a"),
            Token::Mark('.'),
            Token::Word("b"),
            Token::Mark('='),
            Token::Number("0x1F"),
            Token::Mark(';'),
            Token::Mark('-'),
            Token::Number("1.5e-3"),
            Token::Number(".5"),
            Token::Text("q\"AA\u{e9}".into()),
            Token::Text("s".into()),
        ];
        assert_eq!(tokens(text), expected);
    }

    #[test]
    fn open_strings_and_comments_are_errors() {
        for text in ["\"a", "'a\n'", "/* a", "\"a\\\""] {
            assert!(Lexer::new(text).token().is_err(), "{text}");
        }
    }

    #[test]
    fn escape_sequences_are_resolved() {
        assert_eq!(unescape(br"\n\t\\\'\377\0a\xfg\"), b"\n\t\\'\xff\0a\x0fg\\");
        assert_eq!(unescape(br"\U0001f600\ud800"), "😀\u{fffd}".as_bytes());
    }
}
