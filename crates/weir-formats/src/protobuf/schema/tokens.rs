//! Reads the parts that all definitions of `.proto` text share: names, options, blocks.

use std::borrow::Cow;

use thiserror::Error;

use super::lexer::{Lexer, Token};
use super::raw::{Features, RawDefault};

/// Problem at the current line of a text, or with a field.
#[derive(Debug, Error)]
#[error("{0}")]
pub(super) struct SyntaxProblem(Cow<'static, str>);

impl From<&'static str> for SyntaxProblem {
    fn from(text: &'static str) -> Self {
        Self(text.into())
    }
}

impl From<String> for SyntaxProblem {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

/// Result of parsing.
pub(super) type Parsed<T> = Result<T, SyntaxProblem>;

/// A problem in a text.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) line: u32,
    pub(super) problem: String,
}

/// Tokens of a text, with one to look at before it is taken.
pub(super) struct Tokens<'a> {
    lexer: Lexer<'a>,
    next: Token<'a>,
}

/// Options of a field that have an effect on reading.
pub(super) struct FieldOptions {
    pub(super) default: Option<RawDefault>,
    pub(super) features: Features,
}

impl FieldOptions {
    pub(super) fn new(features: Features) -> Self {
        Self {
            default: None,
            features,
        }
    }
}

impl<'a> Tokens<'a> {
    /// Creates a reader; the first [`Self::advance`] reads the first token.
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            lexer: Lexer::new(text),
            next: Token::End,
        }
    }

    pub(super) fn line(&self) -> u32 {
        self.lexer.line
    }

    /// Returns the next token, which stays the next one.
    pub(super) fn peek(&self) -> &Token<'a> {
        &self.next
    }

    /// Skips the next token.
    pub(super) fn advance(&mut self) -> Parsed<()> {
        self.take().map(drop)
    }

    /// Takes the next token.
    pub(super) fn take(&mut self) -> Parsed<Token<'a>> {
        let token = self.lexer.token()?;
        Ok(std::mem::replace(&mut self.next, token))
    }

    /// Takes the expected character.
    pub(super) fn mark(&mut self, mark: char) -> Parsed<()> {
        match self.take()? {
            Token::Mark(found) if found == mark => Ok(()),
            other => Err(unexpected(&format!("'{mark}'"), &other)),
        }
    }

    /// Takes a character if it is next. Returns `true` if it was.
    pub(super) fn skip_mark(&mut self, mark: char) -> Parsed<bool> {
        let is_next = self.next == Token::Mark(mark);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    pub(super) fn word(&mut self) -> Parsed<&'a str> {
        match self.take()? {
            Token::Word(word) => Ok(word),
            other => Err(unexpected("a name", &other)),
        }
    }

    /// Takes a string, or several that follow each other, as text.
    pub(super) fn text(&mut self) -> Parsed<String> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes).map_err(|_| "string that is not UTF-8".into())
    }

    fn bytes(&mut self) -> Parsed<Vec<u8>> {
        let Token::Text(mut bytes) = self.take()? else {
            return Err("expected a string in quotes".into());
        };
        while let Token::Text(_) = self.next {
            if let Token::Text(more) = self.take()? {
                bytes.extend(more);
            }
        }
        Ok(bytes)
    }

    /// Takes names separated by dots, with an optional leading dot.
    pub(super) fn full_name(&mut self) -> Parsed<String> {
        let mut name = String::new();
        if self.skip_mark('.')? {
            name.push('.');
        }
        name.push_str(self.word()?);
        while self.skip_mark('.')? {
            name.push('.');
            name.push_str(self.word()?);
        }
        Ok(name)
    }

    /// Returns `true` if the next word is a field's type although it may look like a keyword: a
    /// name and `=` follow.
    pub(super) fn is_type_name(&self) -> bool {
        let mut ahead = self.lexer.clone();
        matches!(ahead.token(), Ok(Token::Word(_))) && ahead.token() == Ok(Token::Mark('='))
    }

    /// Returns `true` if a group is next: the keyword, a name, and `=`, a number and a brace.
    pub(super) fn is_group(&self) -> bool {
        if self.next != Token::Word("group") {
            return false;
        }
        let mut ahead = self.lexer.clone();
        let mut brackets = 0_u32;
        // A field ends in a semicolon, a group has a body. Braces may be inside of options.
        loop {
            match ahead.token() {
                Ok(Token::Mark('[')) => brackets += 1,
                Ok(Token::Mark(']')) => brackets = brackets.saturating_sub(1),
                Ok(Token::Mark('{')) if brackets == 0 => return true,
                Ok(Token::Mark(';')) if brackets == 0 => return false,
                Ok(Token::End) | Err(_) => return false,
                Ok(_) => {}
            }
        }
    }

    /// Takes `map<KEY, VALUE>` if it is next.
    pub(super) fn map_types(&mut self) -> Parsed<Option<(String, String)>> {
        let is_map =
            self.next == Token::Word("map") && self.lexer.clone().token() == Ok(Token::Mark('<'));
        if !is_map {
            return Ok(None);
        }
        self.advance()?;
        self.mark('<')?;
        let key = self.full_name()?;
        self.mark(',')?;
        let value = self.full_name()?;
        self.mark('>')?;
        Ok(Some((key, value)))
    }

    /// Takes an option statement after its keyword. Options of features must come before
    /// definitions, of which there are some if `is_late`.
    pub(super) fn option(&mut self, features: &mut Features, is_late: bool) -> Parsed<()> {
        let mut options = FieldOptions::new(*features);
        self.one_option(&mut options)?;
        if options.features != *features && is_late {
            return Err("options of features must come before messages and fields".into());
        }
        *features = options.features;
        self.mark(';')
    }

    /// Takes the options of a field in brackets, if there are any.
    pub(super) fn field_options(&mut self, options: &mut FieldOptions) -> Parsed<()> {
        if !self.skip_mark('[')? {
            return Ok(());
        }
        loop {
            self.one_option(options)?;
            if !self.skip_mark(',')? {
                return self.mark(']');
            }
        }
    }

    /// Takes one option: its name, `=` and its value.
    fn one_option(&mut self, options: &mut FieldOptions) -> Parsed<()> {
        let mut name = String::new();
        loop {
            match self.take()? {
                Token::Mark('=') => break,
                Token::Mark(mark @ ('.' | '(' | ')')) => name.push(mark),
                Token::Word(word) => name.push_str(word),
                other => return Err(unexpected("the name of an option", &other)),
            }
        }
        let is_negative = self.skip_mark('-')?;
        let value = match self.next {
            Token::Mark('{') => {
                self.skip_braces()?;
                return Ok(());
            }
            Token::Text(_) => RawDefault::Bytes(self.bytes()?),
            _ => match self.take()? {
                Token::Word(word) | Token::Number(word) => {
                    let sign = if is_negative { "-" } else { "" };
                    RawDefault::Word(format!("{sign}{word}"))
                }
                other => return Err(unexpected("the value of an option", &other)),
            },
        };
        match (name.strip_prefix("features."), &value) {
            (Some(feature), RawDefault::Word(value)) => options.features.set(feature, value),
            _ if name == "default" => options.default = Some(value),
            _ => {}
        }
        Ok(())
    }

    /// Skips up to the end of a block in braces.
    pub(super) fn skip_block(&mut self) -> Parsed<()> {
        while self.next != Token::Mark('{') {
            if matches!(self.next, Token::End | Token::Mark(';' | '}')) {
                return Err(unexpected("'{'", &self.next));
            }
            self.advance()?;
        }
        self.skip_braces()
    }

    /// Skips a block in braces, with the blocks inside.
    fn skip_braces(&mut self) -> Parsed<()> {
        let mut depth = 0_u32;
        loop {
            match self.take()? {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Token::End => return Err("block without closing brace".into()),
                _ => {}
            }
        }
    }

    /// Skips up to and including the next semicolon outside of braces.
    pub(super) fn skip_statement(&mut self) -> Parsed<()> {
        loop {
            match self.next {
                Token::Mark(';') => return self.advance(),
                Token::Mark('{') => self.skip_braces()?,
                Token::Mark('}') | Token::End => {
                    return Err("statement without semicolon".into());
                }
                _ => self.advance()?,
            }
        }
    }
}

/// Returns the problem of a token that is not the expected one.
pub(super) fn unexpected(expected: &str, found: &Token<'_>) -> SyntaxProblem {
    let found = match found {
        Token::Word(word) | Token::Number(word) => format!("\"{word}\""),
        Token::Text(_) => "a string".to_owned(),
        Token::Mark(mark) => format!("'{mark}'"),
        Token::End => "the end of the text".to_owned(),
    };
    format!("expected {expected}, found {found}").into()
}
