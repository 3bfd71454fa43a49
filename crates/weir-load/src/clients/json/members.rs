//! Reads members of a JSON document as a line of values in the format of TLCP.

use std::sync::Arc;

use weir_formats::expression::Expression;
use weir_formats::json::{JsonCheck, JsonReader, NodeId, PathTree};
use weir_formats::selector_value::SelectorValue;
use weir_tlcp::text::push_value;

use crate::error::{LoadError, Result};

/// Reader with reusable memory.
#[derive(Debug)]
pub(super) struct MemberReader {
    reader: JsonReader,
    nodes: Vec<NodeId>,
    text: String,
    line: Vec<u8>,
}

impl MemberReader {
    /// Reads the members at `paths`, which begin at `base`: empty, or a path with a dot at its end.
    pub(super) fn new(base: &str, paths: &[String]) -> Result<Self> {
        let mut tree = PathTree::new();
        let nodes = paths.iter().map(|path| {
            let parsed = Expression::parse(&format!("VALUE.{base}{path}"));
            let failed = |reason: String| LoadError::option("--fields", path, reason);
            let parsed = parsed.map_err(|error| failed(error.to_string()))?;
            match parsed.is_wildcard() {
                true => Err(failed("must name one member".to_owned())),
                false => Ok(tree.add(parsed.steps())),
            }
        });
        let nodes: Vec<NodeId> = nodes.collect::<Result<_>>()?;
        let mut reader = JsonReader::default();
        reader.select(&Arc::new(tree), nodes.iter().copied());
        Ok(Self {
            reader,
            nodes,
            text: String::new(),
            line: Vec::new(),
        })
    }

    /// Returns the line of values; `None` if the document has none of the members. A missing member
    /// is null.
    pub(super) fn read(&mut self, document: &[u8]) -> Option<&[u8]> {
        self.reader.read(document, JsonCheck::Needed).ok()?;
        self.line.clear();
        let mut any = false;
        for (index, node) in self.nodes.iter().enumerate() {
            if index > 0 {
                self.line.push(b'|');
            }
            self.text.clear();
            let found = self.reader.append(*node, document, true, &mut self.text);
            let is_text = matches!(found, Ok(SelectorValue::Text));
            any |= is_text;
            push_value(&mut self.line, is_text.then_some(self.text.as_str()));
        }
        any.then_some(&self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_become_a_line_of_values() {
        let paths = ["key", "a.weir", "n"].map(str::to_owned);
        let mut reader = MemberReader::new("push.pub.data.", &paths).unwrap();
        let document =
            br#"{"push":{"pub":{"data":{"a":{"weir":"1.2"},"key":"x|\"y"},"offset":3}}}"#;
        assert_eq!(reader.read(document), Some(&br#"x%7C"y|1.2|#"#[..]));
        assert_eq!(reader.read(br#"{"push":{"pub":{"data":{}}}}"#), None);
        assert_eq!(reader.read(b"no JSON"), None);
        let wildcard = MemberReader::new("", &["a.*".to_owned()]).unwrap_err();
        assert!(wildcard.to_string().contains("one member"), "{wildcard}");
        assert!(MemberReader::new("", &["a.".to_owned()]).is_err());
    }
}
