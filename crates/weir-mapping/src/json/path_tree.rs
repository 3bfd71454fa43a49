//! The paths of a connection into its keys or values, merged into one tree.

use std::sync::Arc;

use crate::error::ExtractionReason;
use crate::expression::PathStep;

/// A node of a [`PathTree`].
pub(crate) type NodeId = u32;

pub(super) const ROOT: NodeId = 0;

/// All paths that can be asked for, compiled once.
#[derive(Debug)]
pub(crate) struct PathTree {
    pub(super) nodes: Vec<PathNode>,
}

/// A place in a document.
#[derive(Debug)]
pub(super) struct PathNode {
    /// The node above; of the root, itself.
    pub(super) parent: NodeId,
    /// The step from there; none for the root.
    step: Option<Reached>,
    /// Members in order of their length, then of their bytes.
    members: Vec<(Arc<str>, NodeId)>,
    /// Elements in ascending order.
    pub(super) elements: Vec<(u32, NodeId)>,
}

#[derive(Debug)]
enum Reached {
    Member(Arc<str>),
    Element { index: u32, container: Arc<str> },
}

/// What stands where a path should go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Above {
    Object,
    Array,
    Scalar,
    Null,
}

impl PathNode {
    fn new(parent: NodeId, step: Option<Reached>) -> Self {
        Self {
            parent,
            step,
            members: Vec::new(),
            elements: Vec::new(),
        }
    }

    /// True if the node is reached by an index.
    pub(super) fn is_element(&self) -> bool {
        matches!(self.step, Some(Reached::Element { .. }))
    }

    /// The nodes right below.
    pub(super) fn children(&self) -> impl Iterator<Item = NodeId> {
        let members = self.members.iter().map(|(_, node)| *node);
        members.chain(self.elements.iter().map(|(_, node)| *node))
    }

    /// The node of a member.
    #[inline]
    pub(super) fn member(&self, name: &[u8]) -> Option<NodeId> {
        /// Up to here, looking at all of them is faster than a search.
        const FEW: usize = 16;
        if self.members.len() <= FEW {
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

    /// Adds a path; equal paths share their node.
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
                let node = self.push(parent, Reached::Member(Arc::clone(&name)));
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
                let node = self.push(parent, Reached::Element { index, container });
                self.nodes[parent as usize]
                    .elements
                    .insert(i, (index, node));
                node
            }
        }
    }

    fn push(&mut self, parent: NodeId, step: Reached) -> NodeId {
        self.nodes.push(PathNode::new(parent, Some(step)));
        // Paths come from a configuration file, which is far from 4 billion characters long.
        (self.nodes.len() - 1) as NodeId
    }

    /// Why `node` is not there if what is above it is `above`.
    pub(super) fn missing(&self, node: NodeId, above: Above) -> ExtractionReason {
        let name = Arc::clone;
        match (&self.nodes[node as usize].step, above) {
            // The root is there, or there is no document to look into.
            (None, _) => ExtractionReason::NotScalar,
            (Some(Reached::Member(member)), Above::Object) => {
                ExtractionReason::NotFound(name(member))
            }
            (Some(Reached::Member(member)), Above::Array) => {
                ExtractionReason::ArrayObject(name(member))
            }
            (Some(Reached::Member(member)), Above::Scalar) => {
                ExtractionReason::ScalarObject(name(member))
            }
            (Some(Reached::Member(member)), Above::Null) => {
                ExtractionReason::NullObject(name(member))
            }
            (Some(Reached::Element { index, .. }), Above::Object) => {
                ExtractionReason::NotArray(*index)
            }
            (Some(Reached::Element { index, .. }), Above::Array) => {
                ExtractionReason::IndexNotFound(*index)
            }
            (Some(Reached::Element { container, .. }), Above::Scalar) => {
                ExtractionReason::NotIndexed(name(container))
            }
            (Some(Reached::Element { index, .. }), Above::Null) => {
                ExtractionReason::NullIndex(*index)
            }
        }
    }
}
