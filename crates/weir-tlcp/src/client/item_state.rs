//! Decoding of `U` payloads: token by token without state, or strictly against the previous values.

use crate::error::DecodeError;
use crate::text::{TextFault, percent_decode_strict};

/// What a payload says about one field, or about a run of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldToken<'a> {
    /// This and the following fields, `count` in all, keep their values.
    Unchanged {
        /// At least 1.
        count: usize,
    },
    /// Null.
    Null,
    /// The empty text.
    Empty,
    /// A value, still escaped, never empty.
    Raw(&'a [u8]),
    /// A JSON Patch against the previous value, still escaped.
    JsonPatch(&'a [u8]),
    /// A TLCP-diff against the previous value, still escaped.
    TlcpDiff(&'a [u8]),
}

/// Iterates over the tokens of a payload, each with the position (from 1) of its first field.
/// Ends after the first error.
#[derive(Clone, Debug)]
pub struct FieldTokens<'a> {
    rest: Option<&'a [u8]>,
    field: usize,
}

/// The tokens of a payload.
pub fn field_tokens(payload: &[u8]) -> FieldTokens<'_> {
    FieldTokens {
        rest: Some(payload),
        field: 1,
    }
}

/// The token of field `field` (from 1) if the payload carries it explicitly: null, empty, value or
/// diff, but not an unchanged mark.
pub fn explicit_field(payload: &[u8], field: usize) -> Option<FieldToken<'_>> {
    let tokens = field_tokens(payload).map_while(Result::ok);
    let (_, token) = tokens
        .take_while(|(at, _)| *at <= field)
        .find(|(at, _)| *at == field)?;
    Some(token).filter(|token| !matches!(token, FieldToken::Unchanged { .. }))
}

impl<'a> Iterator for FieldTokens<'a> {
    type Item = Result<(usize, FieldToken<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        let (text, rest) = match memchr::memchr(b'|', rest) {
            Some(bar) => (&rest[..bar], Some(&rest[bar + 1..])),
            None => (rest, None),
        };
        self.rest = rest;
        let field = self.field;
        let token = match text {
            b"" => FieldToken::Unchanged { count: 1 },
            b"#" => FieldToken::Null,
            b"$" => FieldToken::Empty,
            [b'^', b'P', patch @ ..] => FieldToken::JsonPatch(patch),
            [b'^', b'T', diff @ ..] => FieldToken::TlcpDiff(diff),
            [b'^', digits @ ..] => match run_length(digits) {
                Some(count) => FieldToken::Unchanged { count },
                None => {
                    self.rest = None;
                    return Some(Err(DecodeError::BadMark { field }));
                }
            },
            value => FieldToken::Raw(value),
        };
        self.field += match token {
            FieldToken::Unchanged { count } => count,
            _ => 1,
        };
        Some(Ok((field, token)))
    }
}

/// A count from 1. Nine digits are more fields than any schema has, and cannot overflow a sum.
fn run_length(digits: &[u8]) -> Option<usize> {
    if digits.len() > 9 {
        return None;
    }
    let mut count = 0;
    for digit in digits {
        count = count * 10 + usize::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (count > 0).then_some(count)
}

/// The values of one item of one subscription, kept by a strict decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemState {
    values: Box<[Option<Box<str>>]>,
    started: bool,
}

impl ItemState {
    /// An item of a schema with `fields` fields, before its first update.
    pub fn new(fields: usize) -> Self {
        Self {
            values: vec![None; fields].into(),
            started: false,
        }
    }

    /// Whether an update has been applied; before that all values read as null.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// The value of field `field`, counted from 1; `None` for null and for fields that do not exist.
    pub fn value(&self, field: usize) -> Option<&str> {
        self.values.get(field.checked_sub(1)?)?.as_deref()
    }

    /// All values in schema order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.values.iter().map(Option::as_deref)
    }

    /// Applies an update. On an error nothing has changed.
    pub fn apply(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        self.check(payload)?;
        for token in field_tokens(payload) {
            let (field, token) = token?;
            let value = match token {
                FieldToken::Unchanged { .. } => continue,
                FieldToken::Null => None,
                FieldToken::Empty => Some(Box::from("")),
                other => Some(decode(field, other)?.into()),
            };
            self.values[field - 1] = value;
        }
        self.started = true;
        Ok(())
    }

    /// Everything that can be wrong with a payload.
    fn check(&self, payload: &[u8]) -> Result<(), DecodeError> {
        let expected = self.values.len();
        let mut found = 0;
        for token in field_tokens(payload) {
            let (field, token) = token?;
            found = field;
            match token {
                FieldToken::Unchanged { .. } if !self.started => {
                    return Err(DecodeError::UnchangedInFirst { field });
                }
                FieldToken::Unchanged { count } => found = field + count - 1,
                FieldToken::Null | FieldToken::Empty => {}
                other => decode(field, other).map(drop)?,
            }
            if found > expected {
                return Err(DecodeError::FieldCount { expected, found });
            }
        }
        if found == expected {
            Ok(())
        } else {
            Err(DecodeError::FieldCount { expected, found })
        }
    }
}

fn decode(field: usize, token: FieldToken<'_>) -> Result<std::borrow::Cow<'_, str>, DecodeError> {
    match token {
        FieldToken::Raw(text) => percent_decode_strict(text).map_err(|fault| match fault {
            TextFault::BadEscape => DecodeError::BadEscape { field },
            TextFault::NotUtf8 => DecodeError::NotUtf8 { field },
        }),
        FieldToken::JsonPatch(_) => Err(DecodeError::NotNegotiated { field, format: 'P' }),
        FieldToken::TlcpDiff(_) => Err(DecodeError::NotNegotiated { field, format: 'T' }),
        FieldToken::Unchanged { .. } | FieldToken::Null | FieldToken::Empty => Ok("".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(fields: usize, payloads: &[&str]) -> Result<ItemState, DecodeError> {
        let mut state = ItemState::new(fields);
        payloads
            .iter()
            .try_for_each(|payload| state.apply(payload.as_bytes()))?;
        Ok(state)
    }

    #[test]
    fn the_worked_example_of_chapter_10() {
        let mut state = ItemState::new(4);
        for (payload, expected) in [
            (
                r#"1|a%7Cb%25c|{"k":1}|The lazy dog"#,
                [
                    Some("1"),
                    Some("a|b%c"),
                    Some(r#"{"k":1}"#),
                    Some("The lazy dog"),
                ],
            ),
            (
                "2|^3",
                [
                    Some("2"),
                    Some("a|b%c"),
                    Some(r#"{"k":1}"#),
                    Some("The lazy dog"),
                ],
            ),
            ("3|#|#|$", [Some("3"), None, None, Some("")]),
            (
                "4|%23x|%24|%5E3",
                [Some("4"), Some("#x"), Some("$"), Some("^3")],
            ),
            (
                "|two%0D%0Alines||",
                [Some("4"), Some("two\r\nlines"), Some("$"), Some("^3")],
            ),
            (
                "^4",
                [Some("4"), Some("two\r\nlines"), Some("$"), Some("^3")],
            ),
            (
                "#lit|$x|a^b|é",
                [Some("#lit"), Some("$x"), Some("a^b"), Some("é")],
            ),
        ] {
            state.apply(payload.as_bytes()).expect(payload);
            assert_eq!(state.values().collect::<Vec<_>>(), expected, "{payload}");
        }
        assert_eq!(state.value(4), Some("é"));
        assert_eq!((state.value(0), state.value(5)), (None, None));
    }

    #[test]
    fn first_updates_must_be_explicit() {
        for first in ["|a", "a|", "^2", "a|^1"] {
            let error = state(2, &[first]).expect_err(first);
            assert!(
                matches!(error, DecodeError::UnchangedInFirst { .. }),
                "{first}: {error}"
            );
        }
    }

    #[test]
    fn every_field_must_be_covered_and_no_more() {
        for (payload, found) in [("x", 1), ("x|y", 2), ("^2", 2), ("a|b|c|d", 4), ("x|^3", 4)] {
            let error = state(3, &["1|2|3", payload]).expect_err(payload);
            assert_eq!(error, DecodeError::FieldCount { expected: 3, found });
        }
    }

    #[test]
    fn bad_payloads_change_nothing() {
        let good = state(2, &["a|b"]).expect("explicit");
        for (payload, error) in [
            ("x|^0", DecodeError::BadMark { field: 2 }),
            ("x|^", DecodeError::BadMark { field: 2 }),
            ("x|^Q1", DecodeError::BadMark { field: 2 }),
            ("x|^1234567890", DecodeError::BadMark { field: 2 }),
            (
                "x|^P[]",
                DecodeError::NotNegotiated {
                    field: 2,
                    format: 'P',
                },
            ),
            (
                "x|^Thb1bi",
                DecodeError::NotNegotiated {
                    field: 2,
                    format: 'T',
                },
            ),
            ("x|%4", DecodeError::BadEscape { field: 2 }),
            ("x|%ff", DecodeError::NotUtf8 { field: 2 }),
        ] {
            let mut state = good.clone();
            assert_eq!(state.apply(payload.as_bytes()), Err(error), "{payload}");
            assert_eq!(state, good, "{payload}");
        }
    }

    #[test]
    fn single_fields_are_found_without_state() {
        let payload = b"^2|x||#|$|^10|last";
        assert_eq!(explicit_field(payload, 3), Some(FieldToken::Raw(b"x")));
        assert_eq!(explicit_field(payload, 5), Some(FieldToken::Null));
        assert_eq!(explicit_field(payload, 6), Some(FieldToken::Empty));
        assert_eq!(explicit_field(payload, 17), Some(FieldToken::Raw(b"last")));
        for unchanged in [0, 1, 2, 4, 7, 16, 18] {
            assert_eq!(explicit_field(payload, unchanged), None, "{unchanged}");
        }
    }
}
