//! Expressions by whose values records of one item are distinguished (`where` of item rules).

use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;
use weir_formats::error::ExpressionError;
use weir_formats::expression::Expression;
use weir_formats::json::NodeId;
use weir_formats::selector_value::SelectorValue;

use crate::evaluator::Evaluator;
use crate::payload::{PartConfig, PathTrees, PayloadReader, WantedPaths};
use crate::record_part::{KeyAndValue, RecordPart};
use crate::record_view::RecordView;
use crate::schema::DocumentFormats;
use crate::selector::{Compiler, Selector};

/// Reason why an expression cannot distinguish the records of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordFilterError {
    /// The evaluators of the connection do not admit the expression.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// The expression selects several values in every record.
    #[error("[{0}] is not a single value; write the path of one")]
    NotScalar(String),
}

/// Compiled expressions of one connection.
#[derive(Debug)]
pub(crate) struct RecordFilters {
    /// Selectors by the position of their expression.
    selectors: Vec<Option<Selector>>,
    paths: PathTrees,
    pub(crate) documents: DocumentFormats,
}

/// Reusable buffer for the values of a record's filters, each of which is extracted at most once.
#[derive(Debug, Clone, Default)]
pub struct FilterValues {
    text: String,
    /// Values by position: `None` before the extraction.
    values: Vec<Option<Option<Range<usize>>>>,
    payloads: PayloadReader,
}

impl RecordFilters {
    /// Compiles expressions; those that the connection does not admit have no value.
    pub(crate) fn new(expressions: &[Option<Expression>], parts: &KeyAndValue<PartConfig>) -> Self {
        let mut compiler = Compiler::new(parts.clone());
        let compiled = expressions.iter().map(|expression| {
            let expression = expression.as_ref()?;
            compile(expression, parts, &mut compiler).ok()
        });
        let selectors: Vec<_> = compiled.collect();
        let mut documents = DocumentFormats::default();
        for (part, _) in nodes(&selectors) {
            *documents.of_mut(part) = Some(Arc::clone(&parts.of(part).format));
        }
        Self {
            selectors,
            paths: compiler.into_paths(),
            documents,
        }
    }

    /// Prepares a buffer for the next record.
    pub(crate) fn begin(&self, values: &mut FilterValues) {
        values.text.clear();
        values.values.clear();
        values.values.resize(self.selectors.len(), None);
        let wanted = WantedPaths::Topic(0);
        if (values.payloads).next_record(&self.paths, |before| *before == wanted) {
            let nodes = nodes(&self.selectors);
            values.payloads.want(&self.paths, wanted, nodes);
        }
    }

    /// Returns the value of an expression; `None` if it is absent, null or not a single value.
    pub(crate) fn value<'a>(
        &self,
        position: usize,
        record: &RecordView<'_>,
        values: &'a mut FilterValues,
    ) -> Option<&'a str> {
        let FilterValues {
            text,
            values,
            payloads,
        } = values;
        let known = values.get_mut(position)?;
        let range = known.get_or_insert_with(|| {
            let start = text.len();
            let selector = self.selectors.get(position)?.as_ref()?;
            let found = selector.append(record, false, payloads, text);
            (found == Ok(SelectorValue::Text)).then_some(start..text.len())
        });
        text.get(range.clone()?)
    }
}

/// Checks an expression against the evaluators of a connection.
pub(crate) fn check(
    expression: &Expression,
    parts: &KeyAndValue<PartConfig>,
) -> Result<(), RecordFilterError> {
    compile(expression, parts, &mut Compiler::new(parts.clone())).map(drop)
}

fn compile(
    expression: &Expression,
    parts: &KeyAndValue<PartConfig>,
    compiler: &mut Compiler,
) -> Result<Selector, RecordFilterError> {
    let selector = compiler.compile(expression)?;
    let is_root = expression.steps().is_empty();
    let is_several = match &selector {
        Selector::Headers(_) | Selector::Pairs(..) => is_root,
        // A message is never a single value.
        Selector::Document(part, _) => is_root && parts.of(*part).evaluator == Evaluator::Protobuf,
        _ => false,
    };
    match is_several {
        true => Err(RecordFilterError::NotScalar(expression.text().to_owned())),
        false => Ok(selector),
    }
}

fn nodes(selectors: &[Option<Selector>]) -> impl Iterator<Item = (RecordPart, NodeId)> + Clone {
    let selectors = selectors.iter().flatten();
    selectors.filter_map(Selector::document_node)
}
