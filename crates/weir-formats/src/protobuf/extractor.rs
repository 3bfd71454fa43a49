//! Extracts the texts of a fixed list of paths from Protobuf messages.

use std::fmt;
use std::sync::Arc;

use super::error::Missing;
use super::reader::ProtobufReader;
use super::schema::ProtobufMessage;
use crate::error::ExpressionError;
use crate::expression::Expression;
use crate::json::{JsonCheck, NodeId, PathTree};
use crate::selector_value::SelectorValue;

/// Reader of selected values of Protobuf messages, for programs without a connector configuration.
#[derive(Debug, Clone)]
pub struct ProtobufExtractor {
    reader: ProtobufReader,
    nodes: Vec<NodeId>,
    check: JsonCheck,
}

/// Failure to extract a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractFailure(String);

impl fmt::Display for ExtractFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExtractFailure {}

impl From<ExpressionError> for ExtractFailure {
    fn from(error: ExpressionError) -> Self {
        Self(error.to_string())
    }
}

impl From<Missing> for ExtractFailure {
    fn from(missing: Missing) -> Self {
        Self(match missing {
            Missing::Reason(reason) => reason.to_string(),
            Missing::Protobuf(error) => error.to_string(),
        })
    }
}

impl ProtobufExtractor {
    /// Compiles expressions such as `VALUE.price` and `VALUE.legs[0].venue` for a message type.
    ///
    /// With `checks_all`, messages are checked completely and not only on the way to the values.
    pub fn new(
        message: &Arc<ProtobufMessage>,
        expressions: &[&str],
        checks_all: bool,
    ) -> Result<Self, ExtractFailure> {
        let mut paths = PathTree::new();
        let mut nodes = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let expression = Expression::parse(expression)?;
            nodes.push(paths.add(expression.steps()));
        }
        let mut reader = ProtobufReader::default();
        reader.select(message, &Arc::new(paths), nodes.iter().copied());
        let check = match checks_all {
            true => JsonCheck::Whole,
            false => JsonCheck::Needed,
        };
        Ok(Self {
            reader,
            nodes,
            check,
        })
    }

    /// Reads a message.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), ExtractFailure> {
        let read = self.reader.read(bytes, self.check);
        read.map_err(|error| ExtractFailure(error.to_string()))
    }

    /// Appends the value of the expression at `index` in `bytes`, the last message read. Returns
    /// `false` for null. Messages, lists and maps are written in Protobuf's text format.
    pub fn append(
        &mut self,
        index: usize,
        bytes: &[u8],
        out: &mut String,
    ) -> Result<bool, ExtractFailure> {
        match self.reader.append(self.nodes[index], bytes, true, out) {
            Ok(SelectorValue::Text) => Ok(true),
            Ok(SelectorValue::Null) => Ok(false),
            Err(missing) => Err(missing.into()),
        }
    }

    /// Passes the name and text of each member of the message, list or map that the expression at
    /// `index` selects in `bytes`, the last message read. Elements are named `name[INDEX]`.
    pub fn members(
        &mut self,
        index: usize,
        bytes: &[u8],
        name: &str,
        emit: &mut dyn FnMut(&str, &str),
    ) -> Result<(), ExtractFailure> {
        let node = self.nodes[index];
        let read = self
            .reader
            .members(node, bytes, name, &mut |name, _, text| emit(name, text));
        read.map_err(ExtractFailure::from)
    }
}
