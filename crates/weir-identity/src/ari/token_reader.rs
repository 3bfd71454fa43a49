//! Reads typed values of a line.

use std::str::Split;

use super::error::AriError;
use super::text::decode_text;
use super::version::TextEncoding;
use crate::modes::ItemModes;

/// Most values of a list.
const LIST_MAX: usize = 10_000;

/// Values of a line that are left.
#[derive(Debug, Clone)]
pub(super) struct TokenReader<'a> {
    tokens: Split<'a, char>,
    encoding: TextEncoding,
}

impl<'a> TokenReader<'a> {
    pub(super) fn new(line: &'a str, encoding: TextEncoding) -> Self {
        let tokens = line.split('|');
        Self { tokens, encoding }
    }

    pub(super) fn set_encoding(&mut self, encoding: TextEncoding) {
        self.encoding = encoding;
    }

    /// Returns the next token as it is.
    pub(super) fn token(&mut self) -> Result<&'a str, AriError> {
        let token = self.tokens.next().ok_or(AriError::Missing)?;
        match token.is_empty() {
            true => Err(AriError::Missing),
            false => Ok(token),
        }
    }

    /// Returns the next token without removing it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.tokens.clone().next()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.peek().is_none()
    }

    /// Returns an error if tokens are left.
    pub(super) fn finish(&self) -> Result<(), AriError> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(AriError::Trailing),
        }
    }

    /// Reads a text without its type.
    pub(super) fn bare_text(&mut self) -> Result<Option<String>, AriError> {
        decode_text(self.token()?, self.encoding)
    }

    /// Reads a text that may be null.
    pub(super) fn optional_text(&mut self) -> Result<Option<String>, AriError> {
        let token = self.value('S')?;
        decode_text(token, self.encoding)
    }

    /// Reads a text.
    pub(super) fn text(&mut self) -> Result<String, AriError> {
        self.optional_text()?.ok_or(AriError::Value { kind: 'S' })
    }

    pub(super) fn integer(&mut self) -> Result<i32, AriError> {
        let value = self.value('I')?.parse();
        value.map_err(|_| AriError::Value { kind: 'I' })
    }

    /// Reads an integer without its type.
    pub(super) fn bare_integer(&mut self) -> Result<i32, AriError> {
        let value = self.token()?.parse();
        value.map_err(|_| AriError::Value { kind: 'I' })
    }

    /// Reads a number of entries.
    pub(super) fn count(&mut self) -> Result<usize, AriError> {
        let count = usize::try_from(self.integer()?);
        let count = count.map_err(|_| AriError::Value { kind: 'I' })?;
        match count <= LIST_MAX {
            true => Ok(count),
            false => Err(AriError::TooMany),
        }
    }

    pub(super) fn long(&mut self) -> Result<i64, AriError> {
        let value = self.value('L')?.parse();
        value.map_err(|_| AriError::Value { kind: 'L' })
    }

    /// Reads a number that is finite and not negative.
    pub(super) fn decimal(&mut self) -> Result<f64, AriError> {
        let token = self.value('D')?;
        let is_number = token
            .bytes()
            .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        let value: Option<f64> = is_number.then(|| token.parse().ok()).flatten();
        let value = value.filter(|value| value.is_finite() && *value >= 0.0);
        value.ok_or(AriError::Value { kind: 'D' })
    }

    pub(super) fn flag(&mut self) -> Result<bool, AriError> {
        match self.value('B')? {
            "1" => Ok(true),
            "0" => Ok(false),
            _ => Err(AriError::Value { kind: 'B' }),
        }
    }

    /// Reads modes; `None` is null.
    pub(super) fn modes(&mut self) -> Result<Option<ItemModes>, AriError> {
        let token = self.value('M')?;
        let letters = match token {
            "#" => return Ok(None),
            "$" => "",
            letters => letters,
        };
        let modes = letters.chars().map(crate::modes::ItemMode::from_letter);
        let modes: Option<ItemModes> = modes.collect();
        modes.map(Some).ok_or(AriError::Value { kind: 'M' })
    }

    /// Reads the token of a result without a value.
    pub(super) fn void(&mut self) -> Result<(), AriError> {
        match self.token()? {
            "V" => Ok(()),
            _ => Err(AriError::Type { expected: 'V' }),
        }
    }

    /// Reads values up to the end of the line.
    pub(super) fn list<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, AriError>,
    ) -> Result<Vec<T>, AriError> {
        let mut values = Vec::new();
        while !self.is_empty() {
            if values.len() == LIST_MAX {
                return Err(AriError::TooMany);
            }
            values.push(read(self)?);
        }
        Ok(values)
    }

    /// Reads a type and returns the value after it.
    fn value(&mut self, kind: char) -> Result<&'a str, AriError> {
        let mut expected = [0; 4];
        match self.token()? == kind.encode_utf8(&mut expected) {
            true => self.token(),
            false => Err(AriError::Type { expected: kind }),
        }
    }
}
