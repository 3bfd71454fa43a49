//! Records compared with a model, with records of Java's library, and malformed ones.

mod encoder;
mod errors;
mod java;
mod model;
mod properties;
mod schemas;

use std::sync::Arc;

use super::{AvroReader, AvroSchema, Missing};
use crate::expression::Expression;
use crate::json::{JsonCheck, NodeId, PathTree};
use crate::selector_value::SelectorValue;

/// Returns a parsed schema.
fn schema(text: &str) -> Arc<AvroSchema> {
    Arc::new(AvroSchema::parse(text, &[]).expect("a valid schema"))
}

/// A reader with the nodes of its paths.
struct Selected {
    reader: AvroReader,
    nodes: Vec<NodeId>,
}

fn select(schema: &Arc<AvroSchema>, paths: &[impl AsRef<str>]) -> Selected {
    let mut tree = PathTree::new();
    let nodes: Vec<_> = paths
        .iter()
        .map(|path| tree.add(Expression::parse(path.as_ref()).expect("valid").steps()))
        .collect();
    let mut reader = AvroReader::default();
    reader.select(schema, &Arc::new(tree), nodes.iter().copied());
    Selected { reader, nodes }
}

/// Text of a value, `None` for null.
type Text = Option<String>;

impl Selected {
    fn read(&mut self, bytes: &[u8], extent: JsonCheck) -> Result<(), String> {
        let outcome = self.reader.read_body(bytes, extent);
        outcome.map_err(|error| error.to_string())
    }

    /// Returns the text of the path at a position.
    fn text(&self, index: usize, bytes: &[u8], complex: bool) -> Result<Text, Missing> {
        let mut out = String::new();
        let value = self
            .reader
            .append(self.nodes[index], bytes, complex, &mut out)?;
        Ok((value == SelectorValue::Text).then_some(out))
    }

    /// Returns the names and texts of the members of the value of the path at a position.
    fn members(&mut self, index: usize, bytes: &[u8]) -> Result<Vec<(String, Text)>, Missing> {
        let mut found = Vec::new();
        self.reader.members(
            self.nodes[index],
            bytes,
            "list",
            &mut |name, value, text| {
                let text = (value == SelectorValue::Text).then(|| text.to_owned());
                found.push((name.to_owned(), text));
            },
        )?;
        Ok(found)
    }
}

/// Returns the text of one path, or the error.
fn text_of(schema: &Arc<AvroSchema>, path: &str, bytes: &[u8]) -> Result<Text, String> {
    let mut selected = select(schema, &[path]);
    selected.read(bytes, JsonCheck::Needed)?;
    let text = selected.text(0, bytes, true);
    text.map_err(|missing| missing.to_string())
}
