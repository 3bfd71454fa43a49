//! Compiled expressions: an expression bound to the evaluators of a connection.

use crate::error::{ExpressionError, ExtractionReason};
use crate::evaluator::{Evaluator, append_text};
use crate::expression::{Expression, Root, Step};
use crate::record_view::RecordView;

/// How key and value of a connection are read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Evaluators {
    pub(crate) key: Evaluator,
    pub(crate) value: Evaluator,
}

/// What a selector found; text goes to the buffer of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Text,
    Null,
}

#[derive(Debug, Clone)]
pub(crate) enum Selector {
    Key(Evaluator),
    Value(Evaluator),
    Headers(Box<[Step]>),
    Topic,
    Timestamp,
    Partition,
    Offset,
}

impl Selector {
    /// Binds an expression; fails for a path below something that has no parts.
    pub(crate) fn compile(
        expression: &Expression,
        evaluators: Evaluators,
    ) -> Result<Self, ExpressionError> {
        if expression.is_wildcard() {
            return Err(ExpressionError::UnexpectedWildcard(
                expression.text().to_owned(),
            ));
        }
        let scalar = |selector: Self| {
            // Indexes directly behind KEY and VALUE are read and have no effect on scalars.
            if expression.has_path() {
                Err(ExpressionError::ScalarPath(expression.text().to_owned()))
            } else {
                Ok(selector)
            }
        };
        match expression.root() {
            Root::Key => match evaluators.key {
                evaluator @ Evaluator::String => scalar(Self::Key(evaluator)),
            },
            Root::Value => match evaluators.value {
                evaluator @ Evaluator::String => scalar(Self::Value(evaluator)),
            },
            Root::Headers => Ok(Self::Headers(expression.steps().cloned().collect())),
            Root::Topic => scalar(Self::Topic),
            Root::Timestamp => scalar(Self::Timestamp),
            Root::Partition => scalar(Self::Partition),
            Root::Offset => scalar(Self::Offset),
        }
    }

    /// Appends what the record holds there to `out`, which an error may leave longer.
    ///
    /// With `complex`, several values are written as one text instead of being an error.
    pub(crate) fn append(
        &self,
        record: &RecordView<'_>,
        complex: bool,
        out: &mut String,
    ) -> Result<Found, ExtractionReason> {
        match self {
            Self::Key(evaluator) => Ok(append_payload(*evaluator, record.key, out)),
            Self::Value(evaluator) => Ok(append_payload(*evaluator, record.value, out)),
            Self::Headers(steps) => append_headers(steps, record, complex, out),
            Self::Topic => {
                out.push_str(record.topic);
                Ok(Found::Text)
            }
            Self::Timestamp => Ok(append_number(record.timestamp_ms, out)),
            Self::Partition => Ok(append_number(i64::from(record.partition), out)),
            Self::Offset => Ok(append_number(record.offset, out)),
        }
    }
}

fn append_payload(evaluator: Evaluator, payload: Option<&[u8]>, out: &mut String) -> Found {
    match payload {
        Some(bytes) => {
            evaluator.append(bytes, out);
            Found::Text
        }
        None => Found::Null,
    }
}

fn append_number(number: i64, out: &mut String) -> Found {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push('-');
    }
    out.extend(digits[start..].iter().map(|&digit| char::from(digit)));
    Found::Text
}

/// A place among the headers; a single one with a null value is a null, not an error.
#[derive(Clone, Copy)]
enum HeaderNode<'a> {
    All,
    Repeated(&'a str),
    Single(Option<&'a [u8]>),
}

type Header<'a> = (&'a str, Option<&'a [u8]>);

fn append_headers(
    steps: &[Step],
    record: &RecordView<'_>,
    complex: bool,
    out: &mut String,
) -> Result<Found, ExtractionReason> {
    let mut node = HeaderNode::All;
    for step in steps {
        node = step_header(node, step, record.headers)?;
    }
    match node {
        HeaderNode::Single(None) => Ok(Found::Null),
        HeaderNode::Single(Some(value)) => {
            append_text(value, out);
            Ok(Found::Text)
        }
        HeaderNode::All | HeaderNode::Repeated(_) if !complex => Err(ExtractionReason::NotScalar),
        HeaderNode::All => {
            out.push('{');
            for (i, (key, value)) in record.headers.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                out.push_str(key);
                out.push('=');
                append_or_null(*value, out);
            }
            out.push('}');
            Ok(Found::Text)
        }
        HeaderNode::Repeated(key) => {
            out.push('[');
            for (i, value) in values(record.headers, key).enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                append_or_null(value, out);
            }
            out.push(']');
            Ok(Found::Text)
        }
    }
}

fn step_header<'a>(
    node: HeaderNode<'a>,
    step: &'a Step,
    headers: &[Header<'a>],
) -> Result<HeaderNode<'a>, ExtractionReason> {
    match (node, step) {
        (HeaderNode::All, Step::Member(name)) => {
            let mut found = values(headers, name);
            match (found.next(), found.next()) {
                (None, _) => Err(ExtractionReason::NotFound(name.as_ref().into())),
                (Some(value), None) => Ok(HeaderNode::Single(value)),
                (Some(_), Some(_)) => Ok(HeaderNode::Repeated(name)),
            }
        }
        (HeaderNode::All, Step::Index { index, .. }) => headers
            .get(*index as usize)
            .map(|(_, value)| HeaderNode::Single(*value))
            .ok_or(ExtractionReason::IndexNotFound(*index)),
        (HeaderNode::Repeated(name), Step::Index { index, .. }) => values(headers, name)
            .nth(*index as usize)
            .map(HeaderNode::Single)
            .ok_or(ExtractionReason::IndexNotFound(*index)),
        (HeaderNode::Repeated(_), Step::Member(name)) => {
            Err(ExtractionReason::ArrayObject(name.as_ref().into()))
        }
        (HeaderNode::Single(_), Step::Member(name)) => {
            Err(ExtractionReason::ScalarObject(name.as_ref().into()))
        }
        (HeaderNode::Single(_), Step::Index { container, .. }) => {
            Err(ExtractionReason::NotIndexed(container.as_ref().into()))
        }
    }
}

fn values<'a, 'h>(
    headers: &'h [Header<'a>],
    key: &'h str,
) -> impl Iterator<Item = Option<&'a [u8]>> + 'h {
    headers
        .iter()
        .filter(move |(name, _)| *name == key)
        .map(|(_, value)| *value)
}

fn append_or_null(value: Option<&[u8]>, out: &mut String) {
    match value {
        Some(bytes) => append_text(bytes, out),
        None => out.push_str("null"),
    }
}

#[cfg(test)]
mod tests;
