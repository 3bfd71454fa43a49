//! Compiled expressions: expressions bound to the evaluators of a connection.

use std::sync::Arc;

use crate::command::RowCommand;
use crate::error::{ExpressionError, ExtractionReason};
use crate::evaluator::{Evaluator, Separators, append_text};
use crate::expression::{Expression, ParentKind, PathStep, Root};
use crate::json::{JsonCheck, NodeId, PathTree};
use crate::number::append_integer;
use crate::payload::{PartConfig, PathTrees, PayloadReader, append_pairs, append_scalar, payload};
use crate::record_part::{KeyAndValue, RecordPart};
use crate::record_view::RecordView;
use crate::selector_value::SelectorValue;

/// Compiler that binds expressions to evaluators and collects their JSON paths.
pub(crate) struct Compiler {
    part_configs: KeyAndValue<PartConfig>,
    json_check: JsonCheck,
    paths: KeyAndValue<PathTree>,
}

#[derive(Debug, Clone)]
pub(crate) enum Selector {
    Scalar(RecordPart, Evaluator),
    Json(RecordPart, NodeId, JsonCheck),
    Pairs(RecordPart, Box<[PathStep]>, Separators),
    Headers(Box<[PathStep]>),
    Topic,
    Timestamp,
    Partition,
    Offset,
    /// Command in auto command mode; the value's evaluator determines what a tombstone is.
    Command(Evaluator),
}

impl Compiler {
    pub(crate) fn new(part_configs: KeyAndValue<PartConfig>, json_check: JsonCheck) -> Self {
        Self {
            part_configs,
            json_check,
            paths: KeyAndValue {
                key: PathTree::new(),
                value: PathTree::new(),
            },
        }
    }

    /// Returns the paths of the compiled expressions.
    pub(crate) fn into_paths(self) -> PathTrees {
        PathTrees {
            key: Arc::new(self.paths.key),
            value: Arc::new(self.paths.value),
        }
    }

    /// Compiles an expression. Fails for a path below a scalar.
    pub(crate) fn compile(&mut self, expression: &Expression) -> Result<Selector, ExpressionError> {
        if expression.is_wildcard() {
            return Err(ExpressionError::UnexpectedWildcard(
                expression.text().to_owned(),
            ));
        }
        let scalar = |selector| {
            // Indexes directly after KEY and VALUE are accepted and have no effect on scalars.
            if expression.has_path() {
                Err(ExpressionError::ScalarPath(expression.text().to_owned()))
            } else {
                Ok(selector)
            }
        };
        let part = match expression.root() {
            Root::Key => RecordPart::Key,
            Root::Value => RecordPart::Value,
            Root::Headers => return Ok(Selector::Headers(expression.steps().into())),
            Root::Topic => return scalar(Selector::Topic),
            Root::Timestamp => return scalar(Selector::Timestamp),
            Root::Partition => return scalar(Selector::Partition),
            Root::Offset => return scalar(Selector::Offset),
        };
        let part_configs = *self.part_configs.of(part);
        match part_configs.evaluator {
            Evaluator::Json => {
                let node = self.paths.of_mut(part).add(expression.steps());
                Ok(Selector::Json(part, node, self.json_check))
            }
            Evaluator::Kvp => {
                let steps = expression.steps().into();
                Ok(Selector::Pairs(part, steps, part_configs.separators))
            }
            evaluator => scalar(Selector::Scalar(part, evaluator)),
        }
    }
}

/// Returns `true` if the connector treats the record's value as null, including empty JSON text.
pub(crate) fn is_tombstone(record: &RecordView<'_>, evaluator: Evaluator) -> bool {
    record
        .value
        .is_none_or(|value| value.is_empty() && evaluator == Evaluator::Json)
}

impl Selector {
    /// Returns the JSON node that has to be wanted before [`Self::append`] is called.
    pub(crate) fn json_node(&self) -> Option<(RecordPart, NodeId)> {
        match self {
            Self::Json(part, node, _) => Some((*part, *node)),
            _ => None,
        }
    }

    /// Appends the selected value to `out`. After an error, `out` may contain a part of it.
    ///
    /// With `complex`, several values are written as one text; otherwise they are an error.
    pub(crate) fn append(
        &self,
        record: &RecordView<'_>,
        complex: bool,
        payloads: &mut PayloadReader,
        out: &mut String,
    ) -> Result<SelectorValue, ExtractionReason> {
        match self {
            Self::Scalar(part, evaluator) => append_scalar(*part, *evaluator, record, out),
            Self::Json(part, node, check) => {
                payloads.append_json(*part, *node, *check, record, complex, out)
            }
            Self::Pairs(part, steps, separators) => {
                append_pairs(payload(record, *part), steps, *separators, complex, out)
            }
            Self::Headers(steps) => append_headers(steps, record, complex, out),
            Self::Command(evaluator) => {
                let command = match is_tombstone(record, *evaluator) {
                    true => RowCommand::Delete,
                    false => RowCommand::Add,
                };
                out.push_str(command.as_str());
                Ok(SelectorValue::Text)
            }
            Self::Topic => {
                out.push_str(record.topic);
                Ok(SelectorValue::Text)
            }
            Self::Timestamp => Ok(append_number(record.timestamp_ms, out)),
            Self::Partition => Ok(append_number(i64::from(record.partition), out)),
            Self::Offset => Ok(append_number(record.offset, out)),
        }
    }
}

fn append_number(number: i64, out: &mut String) -> SelectorValue {
    append_integer(number, out);
    SelectorValue::Text
}

/// Position in the headers. A single header with a null value is null, not an error.
#[derive(Clone, Copy)]
enum HeaderNode<'a> {
    All,
    Repeated(&'a str),
    Single(Option<&'a [u8]>),
}

type Header<'a> = (&'a str, Option<&'a [u8]>);

fn append_headers(
    steps: &[PathStep],
    record: &RecordView<'_>,
    complex: bool,
    out: &mut String,
) -> Result<SelectorValue, ExtractionReason> {
    let mut node = HeaderNode::All;
    for step in steps {
        node = step_header(node, step, record.headers)?;
    }
    match node {
        HeaderNode::Single(None) => return Ok(SelectorValue::Null),
        HeaderNode::Single(Some(value)) => append_text(value, out),
        HeaderNode::All | HeaderNode::Repeated(_) if !complex => {
            return Err(ExtractionReason::NotScalar);
        }
        HeaderNode::All => {
            out.push('{');
            for (i, (key, value)) in record.headers.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                out.push_str(key);
                out.push('=');
                append_text(value.unwrap_or(b"null"), out);
            }
            out.push('}');
        }
        HeaderNode::Repeated(key) => {
            out.push('[');
            for (i, value) in values(record.headers, key).enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                append_text(value.unwrap_or(b"null"), out);
            }
            out.push(']');
        }
    }
    Ok(SelectorValue::Text)
}

fn step_header<'a>(
    node: HeaderNode<'a>,
    step: &'a PathStep,
    headers: &[Header<'a>],
) -> Result<HeaderNode<'a>, ExtractionReason> {
    let (found, parent) = match (node, step) {
        (HeaderNode::All, PathStep::Member(name)) => {
            let mut found = values(headers, name);
            let found = match (found.next(), found.next()) {
                (Some(_), Some(_)) => Some(HeaderNode::Repeated(name)),
                (single, _) => single.map(HeaderNode::Single),
            };
            (found, ParentKind::Object)
        }
        (HeaderNode::All, PathStep::Index { index, .. }) => {
            let header = headers.get(*index as usize);
            let found = header.map(|(_, value)| HeaderNode::Single(*value));
            (found, ParentKind::Array)
        }
        (HeaderNode::Repeated(name), PathStep::Index { index, .. }) => {
            let value = values(headers, name).nth(*index as usize);
            (value.map(HeaderNode::Single), ParentKind::Array)
        }
        (HeaderNode::Repeated(_), PathStep::Member(_)) => (None, ParentKind::Array),
        (HeaderNode::Single(_), _) => (None, ParentKind::Scalar),
    };
    found.ok_or_else(|| step.missing(parent))
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

#[cfg(test)]
mod tests;
