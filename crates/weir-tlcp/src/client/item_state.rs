//! Decoding of `U` payloads: single tokens without state, or strictly against the previous values.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::diff::{apply_json_patch, apply_tlcp_diff};
use crate::error::DecodeError;
use crate::request::Diffs;
use crate::text::{TextFault, percent_decode_strict};

/// Token of one field, or of a run of unchanged fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldToken<'a> {
    /// This and the following fields, `count` in total, are unchanged.
    Unchanged {
        /// Number of fields, at least 1.
        count: usize,
    },
    /// Null.
    Null,
    /// The empty text.
    Empty,
    /// A value, still escaped; never empty.
    Raw(&'a [u8]),
    /// A JSON Patch of the previous value, still escaped.
    JsonPatch(&'a [u8]),
    /// A TLCP-diff of the previous value, still escaped.
    TlcpDiff(&'a [u8]),
}

/// Iterator over the tokens of a payload, each with the position (from 1) of its first field. Ends
/// after the first error.
#[derive(Clone, Debug)]
pub struct FieldTokens<'a> {
    rest: Option<&'a [u8]>,
    field: usize,
}

/// Returns an iterator over the tokens of a payload.
pub fn field_tokens(payload: &[u8]) -> FieldTokens<'_> {
    FieldTokens {
        rest: Some(payload),
        field: 1,
    }
}

/// Returns the token of field `field` (from 1) if the payload contains one: null, empty, a value or
/// a diff, but not an unchanged mark.
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

/// Reads a positive count of at most nine digits, which no field schema exceeds and whose sums
/// cannot overflow.
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

/// Values of one item of one subscription, updated by a strict decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemState {
    values: Box<[Value]>,
    started: bool,
    accepted: Diffs,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Value {
    text: Option<Box<str>>,
    /// Last set by a JSON Patch: the text may differ from the server's, so a TLCP-diff cannot be
    /// applied.
    patched: bool,
}

impl ItemState {
    /// Creates an item with `fields` fields and no values. Diffs are errors.
    pub fn new(fields: usize) -> Self {
        Self::accepting(fields, Diffs::NONE)
    }

    /// Creates an item with `fields` fields and no values, which accepts diffs of these formats.
    pub fn accepting(fields: usize, accepted: Diffs) -> Self {
        Self {
            values: vec![Value::default(); fields].into(),
            started: false,
            accepted,
        }
    }

    /// Returns `true` if an update was applied; before that, all values are null.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Returns the value of field `field` (from 1); `None` for null and for fields that do not
    /// exist.
    pub fn value(&self, field: usize) -> Option<&str> {
        self.values.get(field.checked_sub(1)?)?.text.as_deref()
    }

    /// Returns all values in the order of the field schema.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.values.iter().map(|value| value.text.as_deref())
    }

    /// Applies an update. On an error, the values are unchanged.
    pub fn apply(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        let expected = self.values.len();
        let mut changes: SmallVec<[(usize, Value); 4]> = SmallVec::new();
        let mut found = 0;
        for token in field_tokens(payload) {
            let (field, token) = token?;
            found = field;
            if let FieldToken::Unchanged { count } = token {
                if !self.started {
                    return Err(DecodeError::UnchangedInFirst { field });
                }
                found = field + count - 1;
            }
            if found > expected {
                return Err(DecodeError::FieldCount { expected, found });
            }
            if let Some(value) = self.changed(field, token)? {
                changes.push((field, value));
            }
        }
        if found != expected {
            return Err(DecodeError::FieldCount { expected, found });
        }
        for (field, value) in changes {
            self.values[field - 1] = value;
        }
        self.started = true;
        Ok(())
    }

    /// Returns the new value of a field, or `None` if it is unchanged.
    fn changed(&self, field: usize, token: FieldToken<'_>) -> Result<Option<Value>, DecodeError> {
        let plain = |text: Option<Box<str>>| Value {
            text,
            patched: false,
        };
        Ok(Some(match token {
            FieldToken::Unchanged { .. } => return Ok(None),
            FieldToken::Null => plain(None),
            FieldToken::Empty => plain(Some("".into())),
            FieldToken::Raw(text) => plain(Some(decode(field, text)?.into())),
            FieldToken::JsonPatch(patch) => {
                let base = self.base(field, 'P', self.accepted.json_patch)?;
                let patched = apply_json_patch(base, &decode(field, patch)?);
                let text = patched.ok_or(DecodeError::BadDiff { field, format: 'P' })?;
                Value {
                    text: Some(text.into()),
                    patched: true,
                }
            }
            FieldToken::TlcpDiff(diff) => {
                let base = self.base(field, 'T', self.accepted.tlcp_diff)?;
                if self.values[field - 1].patched {
                    return Err(DecodeError::DiffAfterPatch { field });
                }
                let text = apply_tlcp_diff(base, &decode(field, diff)?);
                plain(Some(
                    text.ok_or(DecodeError::BadDiff { field, format: 'T' })?
                        .into(),
                ))
            }
        }))
    }

    /// Returns the value that a diff refers to.
    fn base(&self, field: usize, format: char, accepted: bool) -> Result<&str, DecodeError> {
        if !accepted {
            return Err(DecodeError::NotNegotiated { field, format });
        }
        let base = self.value(field);
        base.ok_or(DecodeError::DiffOfNull { field, format })
    }
}

fn decode(field: usize, text: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
    percent_decode_strict(text).map_err(|fault| match fault {
        TextFault::BadEscape => DecodeError::BadEscape { field },
        TextFault::NotUtf8 => DecodeError::NotUtf8 { field },
    })
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
    fn worked_example_of_chapter_10() {
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
    fn first_update_must_contain_all_fields() {
        for first in ["|a", "a|", "^2", "a|^1"] {
            let error = state(2, &[first]).expect_err(first);
            assert!(
                matches!(error, DecodeError::UnchangedInFirst { .. }),
                "{first}: {error}"
            );
        }
    }

    #[test]
    fn wrong_field_count_is_an_error() {
        for (payload, found) in [("x", 1), ("x|y", 2), ("^2", 2), ("a|b|c|d", 4), ("x|^3", 4)] {
            let error = state(3, &["1|2|3", payload]).expect_err(payload);
            assert_eq!(error, DecodeError::FieldCount { expected: 3, found });
        }
    }

    #[test]
    fn invalid_payloads_change_nothing() {
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
    fn accepted_diffs_are_applied() {
        let both = Diffs {
            json_patch: true,
            tlcp_diff: true,
        };
        let mut state = ItemState::accepting(2, both);
        let payloads = [
            (r#"{"k": 1}|river"#, r#"{"k": 1}"#, "river"),
            (
                r#"^P[{"op":"add","path":"/s","value":"x%7Cy"}]|^Tcdbed"#,
                r#"{"k":1,"s":"x|y"}"#,
                "ribed",
            ),
            ("^P[]|^Tcb%25", r#"{"k":1,"s":"x|y"}"#, "ri%"),
            ("{}|", "{}", "ri%"),
            ("^Tc|", "{}", "ri%"),
        ];
        for (payload, first, second) in payloads {
            state.apply(payload.as_bytes()).expect(payload);
            assert_eq!(
                state.values().collect::<Vec<_>>(),
                [Some(first), Some(second)]
            );
        }
        state.apply(b"^P[]|#").expect("a patch after a diff");
        for (payload, error) in [
            ("^Tc|", DecodeError::DiffAfterPatch { field: 1 }),
            (
                "^Px|",
                DecodeError::BadDiff {
                    field: 1,
                    format: 'P',
                },
            ),
            (
                "|^Ta",
                DecodeError::DiffOfNull {
                    field: 2,
                    format: 'T',
                },
            ),
            (
                "|^P[]",
                DecodeError::DiffOfNull {
                    field: 2,
                    format: 'P',
                },
            ),
        ] {
            assert_eq!(state.apply(payload.as_bytes()), Err(error), "{payload}");
        }
        state
            .apply(b"plain|abc")
            .expect("a plain value after a patch");
        let error = DecodeError::BadDiff {
            field: 2,
            format: 'T',
        };
        assert_eq!(state.apply(b"^Tb|^Tz"), Err(error));
        assert_eq!(state.value(1), Some("plain"));
        state.apply(b"^Tb|").expect("a diff of a plain value");
        assert_eq!(state.value(1), Some("p"));
    }

    #[test]
    fn explicit_field_finds_single_fields() {
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
