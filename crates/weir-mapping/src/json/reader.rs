//! One pass over a document that notes where the wanted places are.

use std::sync::Arc;

use super::document::{DEPTH_MAX, append_compact, check};
use super::error::{JsonError, JsonFault};
use super::path_tree::{Above, NodeId, PathTree, ROOT};
use super::scalar::{Number, append_number, append_string, name, number, word};
use super::skip::{self, Elements, StringEnd, end_of};
use crate::error::ExtractionReason;
use crate::selector_value::SelectorValue;

/// How much of a document is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum JsonCheck {
    /// As far as the wanted places; of a repeated member the first counts.
    #[default]
    Needed,
    /// The whole document; of a repeated member the last counts.
    Whole,
}

/// Reusable memory for reading documents by one plan; it allocates when the plan changes and
/// where strings have escapes.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonReader {
    plan: Option<Arc<PathTree>>,
    places: Vec<NodeState>,
    /// Number of the present set of wanted nodes; stamps of other sets are out of date.
    aim: u32,
    /// Number of the present document, for stamps of the same kind.
    document: u32,
    name: String,
}

/// What is known of a node.
#[derive(Debug, Clone, Copy, Default)]
struct NodeState {
    /// Wanted, or above a wanted one, if this is the present aim.
    aim: u32,
    members: u32,
    elements: u32,
    /// Found, if this is the present document.
    document: u32,
    node: JsonNode,
}

/// A value where it was found.
#[derive(Debug, Clone, Copy, Default)]
enum JsonNode {
    #[default]
    Null,
    True,
    False,
    /// First byte and closing quote.
    String {
        at: u32,
        quote: u32,
        escaped: bool,
    },
    Number {
        at: u32,
        end: u32,
        is_whole: bool,
    },
    Object {
        at: u32,
    },
    Array {
        at: u32,
    },
}

impl JsonNode {
    fn above(self) -> Above {
        match self {
            Self::Null => Above::Null,
            Self::Object { .. } => Above::Object,
            Self::Array { .. } => Above::Array,
            _ => Above::Scalar,
        }
    }
}

impl JsonReader {
    /// Says which nodes of which plan are wanted from the following documents.
    pub(crate) fn aim(&mut self, plan: &Arc<PathTree>, wanted: impl Iterator<Item = NodeId>) {
        let same = self.plan.as_ref().is_some_and(|old| Arc::ptr_eq(old, plan));
        if !same || self.aim == u32::MAX {
            self.places.clear();
            self.places.resize(plan.nodes.len(), NodeState::default());
            self.plan = Some(Arc::clone(plan));
            self.aim = 0;
            self.document = 0;
        }
        self.aim += 1;
        for node in wanted {
            self.want(plan, node);
        }
    }

    /// Marks a node and counts it and the nodes above it where they are children.
    fn want(&mut self, plan: &PathTree, node: NodeId) {
        if self.renew(node) {
            return;
        }
        let mut node = node;
        while node != ROOT {
            let plan = &plan.nodes[node as usize];
            let was_wanted = self.renew(plan.parent);
            let above = &mut self.places[plan.parent as usize];
            if plan.is_element() {
                above.elements += 1;
            } else {
                above.members += 1;
            }
            if was_wanted {
                return;
            }
            node = plan.parent;
        }
    }

    /// Marks a node as wanted, without children unless it was wanted before.
    fn renew(&mut self, node: NodeId) -> bool {
        let place = &mut self.places[node as usize];
        if place.aim == self.aim {
            return true;
        }
        place.aim = self.aim;
        place.members = 0;
        place.elements = 0;
        false
    }

    /// Finds the wanted places of a document; without bytes it is the document `null`.
    pub(crate) fn read(&mut self, bytes: &[u8], extent: JsonCheck) -> Result<(), JsonError> {
        let Some(plan) = self.plan.clone() else {
            return Ok(());
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(JsonFault::Size.at(0));
        }
        self.begin();
        if bytes.is_empty() {
            let place = &mut self.places[ROOT as usize];
            place.node = JsonNode::Null;
            place.document = self.document;
            return Ok(());
        }
        let start = if bytes.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        let start = skip::white(bytes, start);
        if extent == JsonCheck::Whole {
            check(bytes, start)?;
        }
        let mut walk = PathWalk {
            bytes,
            plan: &plan,
            places: &mut self.places,
            aim: self.aim,
            document: self.document,
            name: &mut self.name,
            last_counts: extent == JsonCheck::Whole,
        };
        walk.value(ROOT, start, false, 0).map(drop)
    }

    fn begin(&mut self) {
        if self.document == u32::MAX {
            self.places.iter_mut().for_each(|place| place.document = 0);
            self.document = 0;
        }
        self.document += 1;
    }

    /// Appends what was found at `node`; `bytes` is the document read last.
    pub(crate) fn append(
        &self,
        node: NodeId,
        bytes: &[u8],
        complex: bool,
        out: &mut String,
    ) -> Result<SelectorValue, Missing> {
        let place = &self.places[node as usize];
        if place.document != self.document {
            return Err(Missing::Reason(self.why_missing(node)));
        }
        match place.node {
            JsonNode::Null => return Ok(SelectorValue::Null),
            JsonNode::True => out.push_str("true"),
            JsonNode::False => out.push_str("false"),
            JsonNode::String { at, quote, escaped } => {
                let quote = quote as usize;
                append_string(bytes, at as usize, StringEnd { quote, escaped }, out)?;
            }
            JsonNode::Number { at, end, is_whole } => {
                let end = end as usize;
                append_number(bytes, at as usize, Number { end, is_whole }, out);
            }
            JsonNode::Object { at } | JsonNode::Array { at } if complex => {
                append_compact(bytes, at as usize, self.depth(node), out)?;
            }
            JsonNode::Object { .. } | JsonNode::Array { .. } => {
                return Err(Missing::Reason(ExtractionReason::NotScalar));
            }
        }
        Ok(SelectorValue::Text)
    }

    /// Returns the number of objects and arrays around a node.
    fn depth(&self, mut node: NodeId) -> usize {
        let nodes = self.plan.as_ref().map_or(&[][..], |plan| &plan.nodes);
        let mut depth = 0;
        while node != ROOT {
            depth += 1;
            node = nodes[node as usize].parent;
        }
        depth
    }

    /// The step of the path that leads nowhere.
    fn why_missing(&self, node: NodeId) -> ExtractionReason {
        let Some(plan) = &self.plan else {
            return ExtractionReason::NotScalar;
        };
        let mut node = node;
        loop {
            let parent = plan.nodes[node as usize].parent;
            let above = &self.places[parent as usize];
            if above.document == self.document || parent == node {
                return plan.missing(node, above.node.above());
            }
            node = parent;
        }
    }
}

/// Why a document yields no text for a node.
#[derive(Debug)]
pub(crate) enum Missing {
    /// The document is well-formed and has no such place.
    Reason(ExtractionReason),
    /// It is not well-formed there.
    Json(JsonError),
}

impl From<JsonError> for Missing {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

struct PathWalk<'a> {
    bytes: &'a [u8],
    plan: &'a PathTree,
    places: &'a mut [NodeState],
    aim: u32,
    document: u32,
    name: &'a mut String,
    last_counts: bool,
}

impl PathWalk<'_> {
    /// Notes the value that starts at `at` as that of `node`, and what is wanted below it.
    ///
    /// Returns the byte after the value if `to_end`, otherwise nothing that means anything.
    fn value(
        &mut self,
        node: NodeId,
        at: usize,
        to_end: bool,
        depth: usize,
    ) -> Result<usize, JsonError> {
        let bytes = self.bytes;
        let here = at as u32;
        let (found, end) = match bytes.get(at) {
            Some(b'"') => {
                let end = skip::string(bytes, at + 1)?;
                let (at, quote) = (here + 1, end.quote as u32);
                let escaped = end.escaped;
                (JsonNode::String { at, quote, escaped }, end.quote + 1)
            }
            Some(b'{' | b'[') if depth == DEPTH_MAX => return Err(JsonFault::Depth.at(at)),
            Some(b'{') => {
                self.note(node, JsonNode::Object { at: here });
                return self.object(node, at + 1, to_end, depth + 1);
            }
            Some(b'[') => {
                self.note(node, JsonNode::Array { at: here });
                return self.array(node, at + 1, to_end, depth + 1);
            }
            Some(b't') => (JsonNode::True, word(bytes, at, "true")?),
            Some(b'f') => (JsonNode::False, word(bytes, at, "false")?),
            Some(b'n') => (JsonNode::Null, word(bytes, at, "null")?),
            Some(b'-' | b'0'..=b'9') => {
                let number = number(bytes, at)?;
                if depth > 0 && number.end == bytes.len() {
                    // More digits may have followed.
                    return Err(end_of(bytes));
                }
                let (end, is_whole) = (number.end as u32, number.is_whole);
                (
                    JsonNode::Number {
                        at: here,
                        end,
                        is_whole,
                    },
                    number.end,
                )
            }
            Some(_) => return Err(JsonFault::Value.at(at)),
            None => return Err(end_of(bytes)),
        };
        self.note(node, found);
        Ok(end)
    }

    fn note(&mut self, node: NodeId, found: JsonNode) {
        let place = &mut self.places[node as usize];
        place.node = found;
        place.document = self.document;
    }

    /// Reads an object from the byte after its bracket.
    fn object(
        &mut self,
        node: NodeId,
        at: usize,
        to_end: bool,
        depth: usize,
    ) -> Result<usize, JsonError> {
        let bytes = self.bytes;
        let mut missing = self.places[node as usize].members;
        if missing == 0 {
            return if to_end {
                skip::container(bytes, at)
            } else {
                Ok(at)
            };
        }
        let mut at = skip::white(bytes, at);
        if bytes.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        loop {
            let (end, value) = name(bytes, at)?;
            at = match self.wanted_member(node, at + 1, end)? {
                Some((child, is_first)) => {
                    missing -= u32::from(is_first);
                    let is_last = missing == 0 && !self.last_counts;
                    let end = self.value(child, value, to_end || !is_last, depth)?;
                    if is_last {
                        return if to_end {
                            skip::container(bytes, end)
                        } else {
                            Ok(end)
                        };
                    }
                    end
                }
                None => skip::value(bytes, value)?,
            };
            at = skip::white(bytes, at);
            match bytes.get(at) {
                Some(b',') => at = skip::white(bytes, at + 1),
                Some(b'}') => return Ok(at + 1),
                Some(_) => return Err(JsonFault::MemberEnd.at(at)),
                None => return Err(end_of(bytes)),
            }
        }
    }

    /// The node of a member if it is to be noted, and whether it is so for the first time.
    fn wanted_member(
        &mut self,
        node: NodeId,
        at: usize,
        end: StringEnd,
    ) -> Result<Option<(NodeId, bool)>, JsonError> {
        let plan = &self.plan.nodes[node as usize];
        let child = if end.escaped {
            self.name.clear();
            append_string(self.bytes, at, end, self.name)?;
            plan.member(self.name.as_bytes())
        } else {
            plan.member(&self.bytes[at..end.quote])
        };
        let Some(child) = child.filter(|child| self.places[*child as usize].aim == self.aim) else {
            return Ok(None);
        };
        if self.places[child as usize].document != self.document {
            return Ok(Some((child, true)));
        }
        if !self.last_counts {
            return Ok(None);
        }
        self.forget(child);
        Ok(Some((child, false)))
    }

    /// Forgets what was found at a node and below it.
    fn forget(&mut self, node: NodeId) {
        if self.places[node as usize].document != self.document {
            return;
        }
        self.places[node as usize].document = 0;
        let plan = self.plan;
        for child in plan.nodes[node as usize].children() {
            self.forget(child);
        }
    }

    /// Reads an array from the byte after its bracket.
    fn array(
        &mut self,
        node: NodeId,
        at: usize,
        to_end: bool,
        depth: usize,
    ) -> Result<usize, JsonError> {
        let bytes = self.bytes;
        let plan = self.plan;
        let mut missing = self.places[node as usize].elements;
        if missing == 0 {
            return if to_end {
                skip::container(bytes, at)
            } else {
                Ok(at)
            };
        }
        let mut at = skip::white(bytes, at);
        if bytes.get(at) == Some(&b']') {
            return Ok(at + 1);
        }
        let mut position = 0;
        for &(index, child) in &plan.nodes[node as usize].elements {
            if self.places[child as usize].aim != self.aim {
                continue;
            }
            if index > position {
                match skip::elements(bytes, at, index - position)? {
                    Elements::Passed(next) => at = skip::white(bytes, next),
                    Elements::Ended(end) => return Ok(end),
                }
            }
            missing -= 1;
            let is_last = missing == 0;
            at = self.value(child, at, to_end || !is_last, depth)?;
            if is_last {
                return if to_end {
                    skip::container(bytes, at)
                } else {
                    Ok(at)
                };
            }
            at = skip::white(bytes, at);
            match bytes.get(at) {
                Some(b',') => at = skip::white(bytes, at + 1),
                Some(b']') => return Ok(at + 1),
                Some(_) => return Err(JsonFault::ElementEnd.at(at)),
                None => return Err(end_of(bytes)),
            }
            position = index + 1;
        }
        // The number of wanted elements was counted from the same list.
        Ok(at)
    }
}
