//! Finds the wanted nodes of a document in one pass.

use std::sync::Arc;

use strum::EnumString;

use super::decimal::NumberForm;
use super::document::{DEPTH_MAX, append_compact, check};
use super::error::{JsonError, JsonFault};
use super::path_tree::{NodeId, PathTree, ROOT};
use super::scalar::{Number, append_number, append_string, name, number, word};
use super::skip::{self, NextElement, StringEnd, end_of};
use crate::error::PathFailure;
use crate::expression::ParentKind;
use crate::selector_value::SelectorValue;

/// Extent of reading a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum JsonCheck {
    /// Up to the wanted nodes; of a repeated member the first one is used.
    #[default]
    Needed,
    /// The whole document; of a repeated member the last one is used.
    Whole,
}

/// Reader with reusable memory. It allocates when the path tree changes and for strings with
/// escapes.
#[derive(Debug, Clone, Default)]
pub struct JsonReader {
    paths: Option<Arc<PathTree>>,
    states: Vec<NodeState>,
    /// Number of the current selection of nodes; stamps with other numbers are outdated.
    selection: u32,
    /// Number of the current document, for stamps.
    document: u32,
    /// Reused for the names and texts of members.
    pub(super) name: String,
    pub(super) text: String,
    numbers: NumberForm,
}

/// State of a node.
#[derive(Debug, Clone, Copy, Default)]
struct NodeState {
    /// Number of the last selection that includes the node or a node below it.
    selection: u32,
    members: u32,
    elements: u32,
    /// Number of the last document in which the node was found.
    document: u32,
    kind: ValueKind,
    /// Position of the first byte of the value, of a string after its opening quote.
    at: u32,
    /// Position after a number, or of the closing quote of a string.
    end: u32,
}

/// Kind of a found value.
#[derive(Debug, Clone, Copy, Default)]
enum ValueKind {
    #[default]
    Null,
    True,
    False,
    String {
        escaped: bool,
    },
    Number {
        is_whole: bool,
    },
    Object,
    Array,
}

impl ValueKind {
    fn as_parent(self) -> ParentKind {
        match self {
            Self::Null => ParentKind::Null,
            Self::Object => ParentKind::Object,
            Self::Array => ParentKind::Array,
            _ => ParentKind::Scalar,
        }
    }
}

impl JsonReader {
    /// Selects the nodes of a path tree that are wanted from the following documents.
    pub fn select(&mut self, paths: &Arc<PathTree>, wanted: impl Iterator<Item = NodeId>) {
        let same = self
            .paths
            .as_ref()
            .is_some_and(|old| Arc::ptr_eq(old, paths));
        if !same || self.selection == u32::MAX {
            self.states.clear();
            self.states.resize(paths.nodes.len(), NodeState::default());
            self.paths = Some(Arc::clone(paths));
            self.selection = 0;
            self.document = 0;
        }
        self.selection += 1;
        for node in wanted {
            self.want(paths, node);
        }
    }

    /// Marks a node and its ancestors, and counts each as a child of its parent.
    fn want(&mut self, paths: &PathTree, node: NodeId) {
        if self.mark_wanted(node) {
            return;
        }
        let mut node = node;
        while node != ROOT {
            let path_node = &paths.nodes[node as usize];
            let was_wanted = self.mark_wanted(path_node.parent);
            let parent = &mut self.states[path_node.parent as usize];
            if path_node.is_element() {
                parent.elements += 1;
            } else {
                parent.members += 1;
            }
            if was_wanted {
                return;
            }
            node = path_node.parent;
        }
    }

    /// Marks a node as wanted. Returns `true` if it was marked before, otherwise clears its counts.
    fn mark_wanted(&mut self, node: NodeId) -> bool {
        let state = &mut self.states[node as usize];
        if state.selection == self.selection {
            return true;
        }
        state.selection = self.selection;
        state.members = 0;
        state.elements = 0;
        false
    }

    /// Sets the text of numbers with a fraction or exponent.
    #[inline]
    pub fn set_numbers(&mut self, form: NumberForm) {
        self.numbers = form;
    }

    pub(super) fn numbers(&self) -> NumberForm {
        self.numbers
    }

    /// Finds the wanted nodes of a document. An empty document counts as `null`.
    pub fn read(&mut self, bytes: &[u8], extent: JsonCheck) -> Result<(), JsonError> {
        let Some(paths) = self.paths.clone() else {
            return Ok(());
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(JsonFault::Size.at(0));
        }
        if self.document == u32::MAX {
            self.states.iter_mut().for_each(|state| state.document = 0);
            self.document = 0;
        }
        self.document += 1;
        if bytes.is_empty() {
            let state = &mut self.states[ROOT as usize];
            state.kind = ValueKind::Null;
            state.document = self.document;
            return Ok(());
        }
        let byte_order_mark = b"\xef\xbb\xbf";
        let start = match bytes.starts_with(byte_order_mark) {
            true => byte_order_mark.len(),
            false => 0,
        };
        let start = skip::white_space(bytes, start);
        if extent == JsonCheck::Whole {
            check(bytes, start)?;
        }
        let mut walk = PathWalk {
            bytes,
            paths: &paths,
            states: &mut self.states,
            selection: self.selection,
            document: self.document,
            name: &mut self.name,
            uses_last: extent == JsonCheck::Whole,
        };
        walk.value(ROOT, start, false, 0).map(drop)
    }

    /// Appends the value found at `node`; `bytes` must be the last document read.
    pub fn append(
        &self,
        node: NodeId,
        bytes: &[u8],
        complex: bool,
        out: &mut String,
    ) -> Result<SelectorValue, Missing> {
        let state = &self.states[node as usize];
        if state.document != self.document {
            return Err(Missing::Reason(self.why_missing(node)));
        }
        let (at, end) = (state.at as usize, state.end as usize);
        match state.kind {
            ValueKind::Null => return Ok(SelectorValue::Null),
            ValueKind::True => out.push_str("true"),
            ValueKind::False => out.push_str("false"),
            ValueKind::String { escaped } => {
                let quote = end;
                append_string(bytes, at, StringEnd { quote, escaped }, out)?;
            }
            ValueKind::Number { is_whole } => {
                append_number(bytes, at, Number { end, is_whole }, self.numbers, out);
            }
            ValueKind::Object | ValueKind::Array if complex => {
                append_compact(bytes, at, self.depth(node), self.numbers, out)?;
            }
            ValueKind::Object | ValueKind::Array => {
                return Err(Missing::Reason(PathFailure::NotScalar));
            }
        }
        Ok(SelectorValue::Text)
    }

    /// Returns the object or array found at a node, `None` for a scalar or null.
    pub(super) fn container(&self, node: NodeId) -> Result<Option<Container>, Missing> {
        let state = &self.states[node as usize];
        if state.document != self.document {
            return Err(Missing::Reason(self.why_missing(node)));
        }
        let is_object = match state.kind {
            ValueKind::Object => true,
            ValueKind::Array => false,
            _ => return Ok(None),
        };
        Ok(Some(Container {
            is_object,
            at: state.at as usize,
            depth: self.depth(node),
        }))
    }

    /// Returns the number of objects and arrays around a node.
    fn depth(&self, mut node: NodeId) -> usize {
        let nodes = self.paths.as_ref().map_or(&[][..], |paths| &paths.nodes);
        let mut depth = 0;
        while node != ROOT {
            depth += 1;
            node = nodes[node as usize].parent;
        }
        depth
    }

    /// Returns the reason why a node is missing, for the first failing step of its path.
    fn why_missing(&self, node: NodeId) -> PathFailure {
        let Some(paths) = &self.paths else {
            return PathFailure::NotScalar;
        };
        let mut node = node;
        loop {
            let parent = paths.nodes[node as usize].parent;
            let state = &self.states[parent as usize];
            if state.document == self.document || parent == node {
                return paths.missing(node, state.kind.as_parent());
            }
            node = parent;
        }
    }
}

/// An object or array in a document.
pub(super) struct Container {
    pub(super) is_object: bool,
    /// Position of the opening bracket.
    pub(super) at: usize,
    /// Number of objects and arrays around it.
    pub(super) depth: usize,
}

/// Reason why a document has no text for a node.
#[derive(Debug)]
pub enum Missing {
    /// The document has no such part, or it is not a single value.
    Reason(PathFailure),
    /// The bytes are not JSON.
    Json(JsonError),
}

impl From<JsonError> for Missing {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

struct PathWalk<'a> {
    bytes: &'a [u8],
    paths: &'a PathTree,
    states: &'a mut [NodeState],
    selection: u32,
    document: u32,
    name: &'a mut String,
    uses_last: bool,
}

impl PathWalk<'_> {
    /// Records the value at `at` for `node`, and the wanted nodes below it.
    ///
    /// Returns the position after the value if `to_end`; otherwise the result is unspecified.
    fn value(
        &mut self,
        node: NodeId,
        at: usize,
        to_end: bool,
        depth: usize,
    ) -> Result<usize, JsonError> {
        let bytes = self.bytes;
        let (kind, end) = match bytes.get(at) {
            Some(b'"') => {
                let end = skip::string(bytes, at + 1)?;
                let escaped = end.escaped;
                self.record(node, ValueKind::String { escaped }, at + 1, end.quote);
                return Ok(end.quote + 1);
            }
            Some(b'{' | b'[') if depth == DEPTH_MAX => return Err(JsonFault::Depth.at(at)),
            Some(b'{') => {
                self.record(node, ValueKind::Object, at, at);
                return self.object(node, at + 1, to_end, depth + 1);
            }
            Some(b'[') => {
                self.record(node, ValueKind::Array, at, at);
                return self.array(node, at + 1, to_end, depth + 1);
            }
            Some(b't') => (ValueKind::True, word(bytes, at, "true")?),
            Some(b'f') => (ValueKind::False, word(bytes, at, "false")?),
            Some(b'n') => (ValueKind::Null, word(bytes, at, "null")?),
            Some(b'-' | b'0'..=b'9') => {
                let Number { end, is_whole } = number(bytes, at)?;
                if depth > 0 && end == bytes.len() {
                    // The number may be truncated.
                    return Err(end_of(bytes));
                }
                (ValueKind::Number { is_whole }, end)
            }
            Some(_) => return Err(JsonFault::Value.at(at)),
            None => return Err(end_of(bytes)),
        };
        self.record(node, kind, at, end);
        Ok(end)
    }

    fn record(&mut self, node: NodeId, kind: ValueKind, at: usize, end: usize) {
        let state = &mut self.states[node as usize];
        state.kind = kind;
        // The length of the document fits into 32 bits.
        (state.at, state.end) = (at as u32, end as u32);
        state.document = self.document;
    }

    /// Reads an object from the byte after its opening bracket.
    fn object(
        &mut self,
        node: NodeId,
        at: usize,
        to_end: bool,
        depth: usize,
    ) -> Result<usize, JsonError> {
        let bytes = self.bytes;
        let mut missing = self.states[node as usize].members;
        if missing == 0 {
            return leave(bytes, at, to_end);
        }
        let mut at = skip::white_space(bytes, at);
        if bytes.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        loop {
            let (end, value) = name(bytes, at)?;
            at = match self.wanted_member(node, at + 1, end)? {
                Some((child, is_first)) => {
                    missing -= u32::from(is_first);
                    let is_last = missing == 0 && !self.uses_last;
                    let end = self.value(child, value, to_end || !is_last, depth)?;
                    if is_last {
                        return leave(bytes, end, to_end);
                    }
                    end
                }
                None => skip::value(bytes, value)?,
            };
            match next(bytes, at, b'}', JsonFault::MemberEnd)? {
                NextElement::Part(part) => at = part,
                NextElement::End(end) => return Ok(end),
            }
        }
    }

    /// Returns the node of a member that has to be recorded, and whether it is the first of its
    /// name.
    fn wanted_member(
        &mut self,
        node: NodeId,
        at: usize,
        end: StringEnd,
    ) -> Result<Option<(NodeId, bool)>, JsonError> {
        let path_node = &self.paths.nodes[node as usize];
        let child = if end.escaped {
            self.name.clear();
            append_string(self.bytes, at, end, self.name)?;
            path_node.member(self.name.as_bytes())
        } else {
            path_node.member(&self.bytes[at..end.quote])
        };
        let Some(child) =
            child.filter(|child| self.states[*child as usize].selection == self.selection)
        else {
            return Ok(None);
        };
        if self.states[child as usize].document != self.document {
            return Ok(Some((child, true)));
        }
        if !self.uses_last {
            return Ok(None);
        }
        self.clear(child);
        Ok(Some((child, false)))
    }

    /// Clears the values recorded for a node and the nodes below it.
    fn clear(&mut self, node: NodeId) {
        if self.states[node as usize].document != self.document {
            return;
        }
        self.states[node as usize].document = 0;
        let paths = self.paths;
        for child in paths.nodes[node as usize].children() {
            self.clear(child);
        }
    }

    /// Reads an array from the byte after its opening bracket.
    fn array(
        &mut self,
        node: NodeId,
        at: usize,
        to_end: bool,
        depth: usize,
    ) -> Result<usize, JsonError> {
        let bytes = self.bytes;
        let paths = self.paths;
        let mut missing = self.states[node as usize].elements;
        if missing == 0 {
            return leave(bytes, at, to_end);
        }
        let mut at = skip::white_space(bytes, at);
        if bytes.get(at) == Some(&b']') {
            return Ok(at + 1);
        }
        let mut position = 0;
        for &(index, child) in &paths.nodes[node as usize].elements {
            if self.states[child as usize].selection != self.selection {
                continue;
            }
            if index > position {
                match skip::elements(bytes, at, index - position)? {
                    NextElement::Part(part) => at = skip::white_space(bytes, part),
                    NextElement::End(end) => return Ok(end),
                }
            }
            missing -= 1;
            let is_last = missing == 0;
            at = self.value(child, at, to_end || !is_last, depth)?;
            if is_last {
                return leave(bytes, at, to_end);
            }
            match next(bytes, at, b']', JsonFault::ElementEnd)? {
                NextElement::Part(part) => at = part,
                NextElement::End(end) => return Ok(end),
            }
            position = index + 1;
        }
        // Not reached: the number of wanted elements was counted from the same list.
        Ok(at)
    }
}

/// Leaves an object or array, of which nothing else is wanted, from a position directly inside it.
#[inline]
fn leave(bytes: &[u8], at: usize, to_end: bool) -> Result<usize, JsonError> {
    if to_end {
        skip::container(bytes, at)
    } else {
        Ok(at)
    }
}

/// Reads the comma or closing bracket after a member or element.
#[inline]
pub(super) fn next(
    bytes: &[u8],
    at: usize,
    close: u8,
    fault: JsonFault,
) -> Result<NextElement, JsonError> {
    let at = skip::white_space(bytes, at);
    match bytes.get(at) {
        Some(b',') => Ok(NextElement::Part(skip::white_space(bytes, at + 1))),
        Some(&byte) if byte == close => Ok(NextElement::End(at + 1)),
        Some(_) => Err(fault.at(at)),
        None => Err(end_of(bytes)),
    }
}
