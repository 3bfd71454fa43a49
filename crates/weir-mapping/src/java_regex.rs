//! Translates Java regular expressions for topic names to the syntax of the `regex` crate.
//!
//! Only the language matters, because the whole name must match, and names consist of ASCII
//! letters, digits, `.`, `_` and `-`. Constructs that `regex` lacks, or reads in another way, are
//! rejected with their position instead of being read differently.

use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;

/// Maximum size of a compiled pattern in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Maximum nesting depth of a pattern.
const DEPTH_MAX: u32 = 100;

/// Reason why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PatternError {
    /// Position in characters from 1, and the construct.
    #[error("position {0}: {1} not supported; write the pattern without it")]
    Unsupported(usize, &'static str),
    #[error("position {0}: {1}")]
    Invalid(usize, &'static str),
    #[error("{0}")]
    Rejected(String),
}

/// Compiles a Java pattern that must match a whole topic name.
pub(crate) fn compile(pattern: &str) -> Result<Regex, PatternError> {
    let translated = translate(pattern)?;
    let whole = format!(r"\A(?:{translated})\z");
    let mut builder = RegexBuilder::new(&whole);
    // Without flags, Java's classes and case-insensitive matching are ASCII only.
    builder.unicode(false);
    builder.size_limit(COMPILED_BYTES_MAX).nest_limit(DEPTH_MAX);
    builder.build().map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        PatternError::Rejected(last.trim_start_matches("error: ").to_owned())
    })
}

fn translate(pattern: &str) -> Result<String, PatternError> {
    let mut translator = Translator {
        chars: pattern.chars().collect(),
        at: 0,
        class_depth: 0,
        class_start: false,
        can_repeat: false,
        after_class_escape: false,
        out: String::with_capacity(pattern.len() + 8),
    };
    while translator.at < translator.chars.len() {
        match translator.class_depth {
            0 => translator.outside()?,
            _ => translator.inside()?,
        }
    }
    if translator.class_depth > 0 {
        return Err(translator.invalid("unclosed character class"));
    }
    Ok(translator.out)
}

struct Translator {
    chars: Vec<char>,
    at: usize,
    /// Number of open character classes.
    class_depth: usize,
    /// The next character is the first of a class, where `]` is a literal.
    class_start: bool,
    /// A quantifier may follow.
    can_repeat: bool,
    /// A hyphen after `\w` and the like is a literal in Java.
    after_class_escape: bool,
    out: String,
}

impl Translator {
    fn peek(&self, offset: usize) -> Option<char> {
        self.chars.get(self.at + offset).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(offset, c)| self.peek(offset) == Some(c))
    }

    fn invalid(&self, text: &'static str) -> PatternError {
        PatternError::Invalid(self.at + 1, text)
    }

    fn unsupported(&self, text: &'static str) -> PatternError {
        PatternError::Unsupported(self.at + 1, text)
    }

    fn literal(&mut self, c: char) -> Result<(), PatternError> {
        if !c.is_ascii() {
            return Err(self.invalid("topic names have no such character"));
        }
        match c.is_ascii_alphanumeric() {
            true => self.out.push(c),
            false => self.out.push_str(&format!("\\x{:02X}", u32::from(c))),
        }
        self.at += 1;
        Ok(())
    }

    /// Translates one construct outside character classes.
    fn outside(&mut self) -> Result<(), PatternError> {
        let Some(c) = self.peek(0) else { return Ok(()) };
        match c {
            '*' | '+' | '?' | '{' => return self.quantifier(c),
            '(' => return self.group(),
            '\\' => {
                self.can_repeat = true;
                return self.escape();
            }
            '[' => self.open_class(),
            '|' => {
                self.can_repeat = false;
                self.copy(1);
            }
            '^' | '$' | ')' | '.' => {
                self.can_repeat = true;
                self.copy(1);
            }
            c => {
                self.can_repeat = true;
                self.literal(c)?;
            }
        }
        Ok(())
    }

    fn copy(&mut self, count: usize) {
        let end = (self.at + count).min(self.chars.len());
        self.out.extend(&self.chars[self.at..end]);
        self.at = end;
    }

    fn quantifier(&mut self, c: char) -> Result<(), PatternError> {
        if !self.can_repeat {
            return Err(self.invalid("nothing to repeat before the quantifier"));
        }
        match c {
            '{' => {
                let rest = &self.chars[self.at + 1..];
                let length = rest.iter().position(|c| *c == '}');
                let inner: String = rest[..length.unwrap_or(0)].iter().collect();
                let (low, high) = inner.split_once(',').unwrap_or((&inner, "0"));
                let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                if low.is_empty() || !digits(low) || !digits(high) {
                    return Err(self.invalid("write a repetition as {N}, {N,} or {N,M}"));
                }
                self.copy(inner.len() + 2);
            }
            _ => self.copy(1),
        }
        match self.peek(0) {
            Some('+') => return Err(self.unsupported("a possessive quantifier is")),
            Some('?') => self.copy(1),
            _ => {}
        }
        self.can_repeat = false;
        Ok(())
    }

    fn group(&mut self) -> Result<(), PatternError> {
        self.can_repeat = false;
        if self.peek(1) != Some('?') {
            self.copy(1);
            return Ok(());
        }
        for (start, construct) in [
            ("(?=", "look-ahead is"),
            ("(?!", "look-ahead is"),
            ("(?<=", "look-behind is"),
            ("(?<!", "look-behind is"),
            ("(?>", "an atomic group is"),
        ] {
            if self.starts_with(start) {
                return Err(self.unsupported(construct));
            }
        }
        if self.starts_with("(?:") {
            self.copy(3);
            return Ok(());
        }
        let rest = &self.chars[self.at + 2..];
        if rest.first() == Some(&'<') {
            let length = rest.iter().position(|c| *c == '>');
            let name = &rest[1..length.unwrap_or(1)];
            let is_name = name.first().is_some_and(char::is_ascii_alphabetic)
                && name.iter().all(char::is_ascii_alphanumeric);
            if !is_name {
                return Err(self.invalid("write the name of a group in letters and digits"));
            }
            self.copy(name.len() + 4);
            return Ok(());
        }
        let flags = rest
            .iter()
            .take_while(|c| c.is_ascii_alphabetic() || **c == '-')
            .count();
        let ends = matches!(rest.get(flags), Some(')' | ':'));
        if !ends || !rest[..flags].iter().all(|flag| "ims-".contains(*flag)) {
            return Err(self.unsupported("an inline flag other than i, m and s is"));
        }
        self.copy(flags + 3);
        Ok(())
    }

    fn open_class(&mut self) {
        self.class_depth += 1;
        self.class_start = true;
        self.can_repeat = false;
        self.after_class_escape = false;
        self.copy(1);
        if self.peek(0) == Some('^') {
            self.copy(1);
        }
    }

    /// Translates one construct inside a character class.
    fn inside(&mut self) -> Result<(), PatternError> {
        let Some(c) = self.peek(0) else { return Ok(()) };
        let is_first = std::mem::take(&mut self.class_start);
        let after_escape = std::mem::take(&mut self.after_class_escape);
        match c {
            ']' if !is_first => {
                self.copy(1);
                self.class_depth -= 1;
                self.can_repeat = true;
                Ok(())
            }
            '[' => {
                self.open_class();
                Ok(())
            }
            '&' if self.peek(1) == Some('&') => {
                self.copy(2);
                Ok(())
            }
            '\\' => self.escape(),
            '-' if self.peek(1) == Some('-') => Err(self.unsupported("a range from a hyphen is")),
            // Between characters it is a range, which both read alike.
            '-' if !after_escape && !is_first => {
                self.copy(1);
                Ok(())
            }
            c => self.literal(c),
        }
    }

    /// Translates what follows a backslash.
    fn escape(&mut self) -> Result<(), PatternError> {
        let Some(c) = self.peek(1) else {
            return Err(self.invalid("nothing after the backslash"));
        };
        let in_class = self.class_depth > 0;
        match c {
            'Q' => self.quoted()?,
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => {
                self.copy(2);
                self.after_class_escape = in_class;
            }
            't' | 'n' | 'r' | 'f' | 'a' => self.copy(2),
            'x' | 'u' => self.code(c)?,
            'b' | 'B' | 'A' | 'z' if !in_class => self.copy(2),
            // Before the end or a last line terminator, which names have not.
            'Z' if !in_class => {
                self.at += 2;
                self.out.push_str("\\z");
            }
            'p' | 'P' => self.named_class(c)?,
            '1'..='9' | 'k' => return Err(self.unsupported("a back-reference is")),
            c if c.is_ascii_alphanumeric() => {
                return Err(self.unsupported("this escape sequence is"));
            }
            c => {
                self.at += 1;
                self.literal(c)?;
            }
        }
        Ok(())
    }

    /// Translates `\Q...\E`, a literal text.
    fn quoted(&mut self) -> Result<(), PatternError> {
        self.at += 2;
        let mut is_empty = true;
        while let Some(c) = self.peek(0) {
            if self.starts_with("\\E") {
                self.at += 2;
                break;
            }
            self.literal(c)?;
            is_empty = false;
        }
        self.can_repeat &= !is_empty;
        Ok(())
    }

    /// Translates `\xHH` and `\uHHHH`.
    fn code(&mut self, kind: char) -> Result<(), PatternError> {
        let length = if kind == 'x' { 2 } else { 4 };
        let digits: String = self.chars.iter().skip(self.at + 2).take(length).collect();
        let is_whole = digits.len() == length && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| is_whole);
        let Some(c) = code.and_then(char::from_u32) else {
            return Err(self.unsupported("this form of a character code is"));
        };
        self.at += 1 + length;
        self.literal(c)
    }

    /// Translates `\p{NAME}` and `\P{NAME}` of POSIX classes.
    fn named_class(&mut self, kind: char) -> Result<(), PatternError> {
        const NAMES: [&str; 13] = [
            "Lower", "Upper", "ASCII", "Alpha", "Digit", "Alnum", "Punct", "Graph", "Print",
            "Blank", "Cntrl", "XDigit", "Space",
        ];
        let rest = &self.chars[self.at + 2..];
        let length = rest.iter().position(|c| *c == '}').unwrap_or(0);
        let name: String = rest.iter().take(length).skip(1).collect();
        if rest.first() != Some(&'{') || !NAMES.contains(&name.as_str()) {
            return Err(self.unsupported("a character class other than those of POSIX is"));
        }
        let negated = if kind == 'P' { "^" } else { "" };
        let class = format!("[:{negated}{}:]", name.to_ascii_lowercase());
        match self.class_depth {
            0 => self.out.push_str(&format!("[{class}]")),
            _ => self.out.push_str(&class),
        }
        self.after_class_escape = self.class_depth > 0;
        self.at += 2 + length + 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        regex.is_match(name.as_bytes())
    }

    /// Pattern, names that Java matches, names that it does not match.
    const ROWS: &[(&str, &[&str], &[&str])] = &[
        ("orders", &["orders"], &["orders2", "xorders", "ORDERS"]),
        ("a.b", &["a.b", "axb", "a-b"], &["ab", "a.b.c"]),
        (r"a\.b", &["a.b"], &["axb"]),
        ("stock_.*", &["stock_", "stock_a.b"], &["stock"]),
        ("a|bc", &["a", "bc"], &["ac", "abc"]),
        ("(a|b)+?", &["a", "abba"], &["", "c"]),
        ("x{2}y{1,}z{0,1}", &["xxy", "xxyyz"], &["xy", "xxyzz"]),
        ("[a-c&&[^b]]", &["a", "c"], &["b", "&", "d"]),
        ("[a[x-z]]", &["a", "y"], &["b", "["]),
        ("[^a-c]", &["d", "-"], &["a"]),
        (r"[\w-.]+", &["a-b.c_"], &["a b"]),
        ("[-a]+", &["a-"], &["b"]),
        ("[a-]+", &["a-"], &["b"]),
        ("[]a]+", &["]a"], &["b"]),
        (r"\Qa.b*\E+c", &["a.b*c", "a.b***c"], &["axb*c"]),
        (r"\Qa.b", &["a.b"], &["axb"]),
        (r"[\Q^]\E-]+", &["^]-"], &["Q"]),
        (r"\d{4}-\D", &["2024-x"], &["2024-1"]),
        (
            r"\p{Alpha}\P{Alpha}[\p{Digit}_]",
            &["a11", "z-_"],
            &["1a1", "a1a"],
        ),
        (r"a\_b\-\<", &["a_b-<"], &["a_b-"]),
        (r"\x41\u0042", &["AB"], &["ab"]),
        ("(?i)Ab(?-i)C", &["abC", "ABC"], &["abc"]),
        ("(?i:k)s", &["Ks", "ks"], &["kS"]),
        ("(?<env>dev|prod)-x", &["dev-x"], &["env-x"]),
        (r"a\b-\B-", &["a--"], &["a-"]),
        (r"^ab$\Z\z", &["ab"], &["abc"]),
        ("", &[""], &["a"]),
        ("#a b", &["#a b"], &["ab"]),
    ];

    #[test]
    fn patterns_match_like_in_java() {
        for (pattern, matching, others) in ROWS {
            for name in *matching {
                assert!(matches(pattern, name), "{pattern} matches {name}");
            }
            for name in *others {
                assert!(!matches(pattern, name), "{pattern} does not match {name}");
            }
        }
    }

    #[test]
    fn different_constructs_are_rejected_with_position() {
        let rows = [
            ("(?=a)a", 1, "look-ahead"),
            ("a(?!b)c", 2, "look-ahead"),
            ("(?<=a)b", 1, "look-behind"),
            ("(?<!a)b", 1, "look-behind"),
            ("a(?>b)", 2, "atomic"),
            (r"(a)\1", 4, "back-reference"),
            (r"(?<a>x)\k<a>", 8, "back-reference"),
            ("ab*+", 4, "possessive"),
            ("a{2}+", 5, "possessive"),
            ("(?x)a", 1, "inline flag"),
            ("(?U)a", 1, "inline flag"),
            ("(?d:a)", 1, "inline flag"),
            (r"a\p{L}", 2, "POSIX"),
            (r"\pL", 1, "POSIX"),
            (r"\p{IsLatin}", 1, "POSIX"),
            (r"\p{javaLowerCase}", 1, "POSIX"),
            (r"\R", 1, "escape"),
            (r"\h", 1, "escape"),
            (r"\v", 1, "escape"),
            (r"\G", 1, "escape"),
            (r"\N{DIGIT ONE}", 1, "escape"),
            (r"\07", 1, "escape"),
            (r"\cA", 1, "escape"),
            (r"\x{41}", 1, "character code"),
            ("[+--]", 3, "hyphen"),
        ];
        for (pattern, position, construct) in rows {
            let error = compile(pattern).expect_err(pattern).to_string();
            let start = format!("position {position}: ");
            assert!(
                error.starts_with(&start) && error.contains(construct),
                "{pattern}: {error}"
            );
        }
    }

    #[test]
    fn malformed_patterns_are_rejected() {
        for pattern in [
            "*a",
            "+",
            "a**",
            "a{2}{3}",
            "a{,3}",
            "a{",
            "{2}",
            "a{x}",
            "(a",
            "a)",
            "[a",
            "a\\",
            "(|*a)",
            "[b-a]",
            "é",
            "(?<1>a)",
            "a{99999}{2}",
            "a{9999999}",
        ] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
        assert!(compile(&"(".repeat(10_000)).is_err());
        assert!(compile("((a{1000}){1000}){1000}").is_err(), "too large");
    }

    proptest! {
        /// A quoted or escaped name matches itself only.
        #[test]
        fn quoted_names_match_themselves(name in "[ -~]{1,20}", other in "[ -~]{1,20}") {
            prop_assume!(!name.contains("\\E"));
            let escaped: String = name
                .chars()
                .map(|c| match c.is_ascii_alphanumeric() {
                    true => c.to_string(),
                    false => format!("\\{c}"),
                })
                .collect();
            for pattern in [format!("\\Q{name}\\E"), escaped] {
                prop_assert!(matches(&pattern, &name));
                prop_assert_eq!(matches(&pattern, &other), name == other);
            }
        }

        #[test]
        fn patterns_never_panic(
            pattern in "([\\[\\](){}^$|*+?.\\\\,&~a-c0-3QEpPdwxu<>:=!i-]|é){0,24}",
        ) {
            let _ = compile(&pattern);
        }
    }
}
