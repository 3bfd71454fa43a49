//! Reads paths of records without a connection's configuration.

use std::sync::Arc;

use thiserror::Error;

use super::{AvroError, AvroReader, AvroSchema, Missing};
use crate::error::ExpressionError;
use crate::expression::{Expression, Root};
use crate::json::{JsonCheck, NodeId, PathTree};
use crate::selector_value::SelectorValue;

/// Reader of some paths of the records of one schema. It allocates nothing per record.
#[derive(Debug, Clone)]
pub struct AvroExtractor {
    reader: AvroReader,
    nodes: Vec<NodeId>,
}

/// Error in a path of an [`AvroExtractor`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("path \"{path}\": {problem}")]
pub struct AvroPathError {
    path: String,
    problem: String,
}

impl AvroExtractor {
    /// Compiles paths such as `VALUE.orders[0].id`.
    pub fn new(schema: &Arc<AvroSchema>, paths: &[&str]) -> Result<Self, AvroPathError> {
        let mut tree = PathTree::new();
        let mut nodes = Vec::with_capacity(paths.len());
        for path in paths {
            let error = |problem: String| AvroPathError {
                path: (*path).to_owned(),
                problem,
            };
            let expression =
                Expression::parse(path).map_err(|e: ExpressionError| error(e.to_string()))?;
            if !matches!(expression.root(), Root::Key | Root::Value) {
                return Err(error("a path starts with KEY or VALUE".to_owned()));
            }
            nodes.push(tree.add(expression.steps()));
        }
        let mut reader = AvroReader::default();
        reader.select(schema, &Arc::new(tree), nodes.iter().copied());
        Ok(Self { reader, nodes })
    }

    /// Finds the paths in a record. `is_whole` checks the bytes after them too.
    pub fn read(&mut self, record: &[u8], is_whole: bool) -> Result<(), AvroError> {
        let extent = match is_whole {
            true => JsonCheck::Whole,
            false => JsonCheck::Needed,
        };
        self.reader.read(record, extent)
    }

    /// Appends the text of the path at `index`. Returns `false` for null. `record` must be the last
    /// record read.
    pub fn append(&self, index: usize, record: &[u8], out: &mut String) -> Result<bool, Missing> {
        let value = self.reader.append(self.nodes[index], record, true, out)?;
        Ok(value == SelectorValue::Text)
    }

    /// Calls `emit` with the name and text, `None` for null, of each member of the value of the
    /// path at `index`. `record` must be the last record read.
    pub fn members(
        &mut self,
        index: usize,
        record: &[u8],
        array_name: &str,
        emit: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<(), Missing> {
        let emit = &mut |name: &str, value, text: &str| {
            emit(name, (value == SelectorValue::Text).then_some(text));
        };
        self.reader
            .members(self.nodes[index], record, array_name, emit)?;
        Ok(())
    }
}
