//! Selectors: extraction expressions compiled for the evaluators of a connection.

use std::sync::Arc;

use weir_formats::error::ExpressionError;
use weir_formats::expression::{Expression, PathStep, Root};
use weir_formats::json::{NodeId, PathTree};
use weir_formats::number::append_integer;
use weir_formats::selector_value::SelectorValue;

use crate::command::RowCommand;
use crate::error::ExtractionReason;
use crate::evaluator::{Evaluator, Separators};
use crate::headers::append_headers;
use crate::payload::{
    DocumentPaths, PartConfig, PathTrees, PayloadReader, append_pairs, append_scalar, payload,
};
use crate::record_part::{KeyAndValue, RecordPart};
use crate::record_view::RecordView;
use crate::wildcard::{MembersSelector, node_name};

/// Compiler that binds expressions to evaluators and collects their document paths.
pub(crate) struct Compiler {
    part_configs: KeyAndValue<PartConfig>,
    paths: KeyAndValue<PathTree>,
}

#[derive(Debug, Clone)]
pub(crate) enum Selector {
    Scalar(RecordPart, Evaluator),
    Document(RecordPart, NodeId),
    Pairs(RecordPart, Box<[PathStep]>, Separators),
    Headers(Box<[PathStep]>),
    Topic,
    Timestamp,
    Partition,
    Offset,
    /// Command of auto command mode: ADD, or DELETE for a tombstone.
    Command {
        /// `true` if a value without bytes is a tombstone, too.
        is_null_if_empty: bool,
    },
}

impl Compiler {
    pub(crate) fn new(part_configs: KeyAndValue<PartConfig>) -> Self {
        Self {
            part_configs,
            paths: KeyAndValue {
                key: PathTree::new(),
                value: PathTree::new(),
            },
        }
    }

    /// Returns the paths of the compiled expressions.
    pub(crate) fn into_paths(self) -> PathTrees {
        let paths = |tree, config: PartConfig| DocumentPaths {
            tree: Arc::new(tree),
            format: config.format,
        };
        PathTrees {
            key: paths(self.paths.key, self.part_configs.key),
            value: paths(self.paths.value, self.part_configs.value),
        }
    }

    /// Compiles the expression of `field.*`. Fails for a path below a scalar.
    pub(crate) fn compile_members(
        &mut self,
        expression: &Expression,
    ) -> Result<MembersSelector, ExpressionError> {
        let text = || expression.text().to_owned();
        if !expression.is_wildcard() {
            return Err(ExpressionError::MissingWildcard(text()));
        }
        let steps = expression.steps();
        let (part, root) = match expression.root() {
            Root::Key => (RecordPart::Key, "KEY"),
            Root::Value => (RecordPart::Value, "VALUE"),
            Root::Headers => return Ok(MembersSelector::Headers(steps.into())),
            Root::Topic | Root::Timestamp | Root::Partition | Root::Offset => {
                return Err(ExpressionError::ConstantWildcard(text()));
            }
        };
        let config = self.part_configs.of(part);
        match config.evaluator {
            Evaluator::Json | Evaluator::Avro | Evaluator::Protobuf => {
                Ok(MembersSelector::Document {
                    part,
                    node: self.paths.of_mut(part).add(steps),
                    name: node_name(root, steps),
                })
            }
            Evaluator::Kvp => {
                let separators = config.separators;
                Ok(MembersSelector::Pairs(part, steps.into(), separators))
            }
            _ if expression.has_path() => Err(ExpressionError::ScalarPath(text())),
            _ => Ok(MembersSelector::Scalar),
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
            // As in the connector, an index directly after KEY or VALUE is accepted and has no
            // effect on scalars.
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
        let config = self.part_configs.of(part);
        match config.evaluator {
            Evaluator::Json | Evaluator::Avro | Evaluator::Protobuf => {
                let node = self.paths.of_mut(part).add(expression.steps());
                Ok(Selector::Document(part, node))
            }
            Evaluator::Kvp => {
                let steps = expression.steps().into();
                Ok(Selector::Pairs(part, steps, config.separators))
            }
            evaluator => scalar(Selector::Scalar(part, evaluator)),
        }
    }
}

/// Returns `true` if the connector treats the record's value as null.
pub(crate) fn is_tombstone(record: &RecordView<'_>, is_null_if_empty: bool) -> bool {
    record
        .value
        .is_none_or(|value| value.is_empty() && is_null_if_empty)
}

impl Selector {
    /// Returns the document node to request from the reader before [`Self::append`] is called.
    pub(crate) fn document_node(&self) -> Option<(RecordPart, NodeId)> {
        match self {
            Self::Document(part, node) => Some((*part, *node)),
            _ => None,
        }
    }

    /// Appends the selected value to `out`. After an error, `out` may contain a part of it.
    ///
    /// With `complex`, objects and arrays are written as text; otherwise they are an error.
    pub(crate) fn append(
        &self,
        record: &RecordView<'_>,
        complex: bool,
        payloads: &mut PayloadReader,
        out: &mut String,
    ) -> Result<SelectorValue, ExtractionReason> {
        match self {
            Self::Scalar(part, evaluator) => append_scalar(*part, *evaluator, record, out),
            Self::Document(part, node) => {
                payloads.append_document(*part, *node, record, complex, out)
            }
            Self::Pairs(part, steps, separators) => {
                append_pairs(payload(record, *part), steps, *separators, complex, out)
            }
            Self::Headers(steps) => Ok(append_headers(steps, record, complex, out)?),
            Self::Command { is_null_if_empty } => {
                let command = match is_tombstone(record, *is_null_if_empty) {
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

#[cfg(test)]
mod tests;
