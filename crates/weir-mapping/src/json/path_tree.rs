//! Tree of the paths into a connection's keys or values.

use std::sync::Arc;

use crate::error::ExtractionReason;
use crate::expression::PathStep;

/// A node of a [`PathTree`].
pub(crate) type NodeId = u32;

pub(super) const ROOT: NodeId = 0;

/// All paths of templates or fields, compiled once.
#[derive(Debug)]
pub(crate) struct PathTree {
    pub(super) nodes: Vec<PathNode>,
}

/// A position in a document.
#[derive(Debug)]
pub(super) struct PathNode {
    /// Parent node; the root is its own parent.
    pub(super) parent: NodeId,
    /// Step from the parent; `None` for the root.
    step: Option<NodeStep>,
    /// Members, ordered by length, then by bytes.
    members: Vec<(Arc<str>, NodeId)>,
    /// Elements, ordered by index.
    pub(super) elements: Vec<(u32, NodeId)>,
}

#[derive(Debug)]
enum NodeStep {
    Member(Arc<str>),
    Element { index: u32, container: Arc<str> },
}

/// Kind of value in which a step of a path failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParentKind {
    Object,
    Array,
    Scalar,
    Null,
}

impl PathNode {
    fn new(parent: NodeId, step: Option<NodeStep>) -> Self {
        Self {
            parent,
            step,
            members: Vec::new(),
            elements: Vec::new(),
        }
    }

    /// Returns `true` if an index leads to the node.
    pub(super) fn is_element(&self) -> bool {
        matches!(self.step, Some(NodeStep::Element { .. }))
    }

    /// Returns the child nodes.
    pub(super) fn children(&self) -> impl Iterator<Item = NodeId> {
        let members = self.members.iter().map(|(_, node)| *node);
        members.chain(self.elements.iter().map(|(_, node)| *node))
    }

    /// Returns the node of a member.
    #[inline]
    pub(super) fn member(&self, name: &[u8]) -> Option<NodeId> {
        /// Number of members up to which a linear search is faster.
        const LINEAR_MAX: usize = 16;
        if self.members.len() <= LINEAR_MAX {
            let found = self.members.iter().find(|(n, _)| n.as_bytes() == name);
            return found.map(|(_, node)| *node);
        }
        let found = self
            .members
            .binary_search_by(|(n, _)| order(n.as_bytes(), name));
        found.ok().map(|i| self.members[i].1)
    }
}

fn order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl PathTree {
    pub(crate) fn new() -> Self {
        Self {
            nodes: vec![PathNode::new(ROOT, None)],
        }
    }

    /// Adds a path. Equal paths share their node.
    pub(crate) fn add<'a>(&mut self, steps: impl Iterator<Item = &'a PathStep>) -> NodeId {
        let mut at = ROOT;
        for step in steps {
            at = match step {
                PathStep::Member(name) => self.add_member(at, name),
                PathStep::Index { index, container } => self.add_element(at, *index, container),
            };
        }
        at
    }

    fn add_member(&mut self, parent: NodeId, name: &str) -> NodeId {
        let members = &self.nodes[parent as usize].members;
        match members.binary_search_by(|(n, _)| order(n.as_bytes(), name.as_bytes())) {
            Ok(i) => members[i].1,
            Err(i) => {
                let name: Arc<str> = name.into();
                let node = self.push(parent, NodeStep::Member(Arc::clone(&name)));
                self.nodes[parent as usize].members.insert(i, (name, node));
                node
            }
        }
    }

    fn add_element(&mut self, parent: NodeId, index: u32, container: &str) -> NodeId {
        let elements = &self.nodes[parent as usize].elements;
        match elements.binary_search_by_key(&index, |(index, _)| *index) {
            Ok(i) => elements[i].1,
            Err(i) => {
                let container = container.into();
                let node = self.push(parent, NodeStep::Element { index, container });
                self.nodes[parent as usize]
                    .elements
                    .insert(i, (index, node));
                node
            }
        }
    }

    fn push(&mut self, parent: NodeId, step: NodeStep) -> NodeId {
        self.nodes.push(PathNode::new(parent, Some(step)));
        // The configuration file limits the number of nodes to far less than 4 billion.
        (self.nodes.len() - 1) as NodeId
    }

    /// Returns the reason why `node` is missing below a value of kind `above`.
    pub(super) fn missing(&self, node: NodeId, parent: ParentKind) -> ExtractionReason {
        let name = Arc::clone;
        match (&self.nodes[node as usize].step, parent) {
            // The root exists, or there is no document.
            (None, _) => ExtractionReason::NotScalar,
            (Some(NodeStep::Member(member)), ParentKind::Object) => {
                ExtractionReason::NotFound(name(member))
            }
            (Some(NodeStep::Member(member)), ParentKind::Array) => {
                ExtractionReason::ArrayObject(name(member))
            }
            (Some(NodeStep::Member(member)), ParentKind::Scalar) => {
                ExtractionReason::ScalarObject(name(member))
            }
            (Some(NodeStep::Member(member)), ParentKind::Null) => {
                ExtractionReason::NullObject(name(member))
            }
            (Some(NodeStep::Element { index, .. }), ParentKind::Object) => {
                ExtractionReason::NotArray(*index)
            }
            (Some(NodeStep::Element { index, .. }), ParentKind::Array) => {
                ExtractionReason::IndexNotFound(*index)
            }
            (Some(NodeStep::Element { container, .. }), ParentKind::Scalar) => {
                ExtractionReason::NotIndexed(name(container))
            }
            (Some(NodeStep::Element { index, .. }), ParentKind::Null) => {
                ExtractionReason::NullIndex(*index)
            }
        }
    }
}
