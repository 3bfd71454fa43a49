//! Tree of the paths into a connection's keys or values.

use std::sync::Arc;

use crate::error::PathFailure;
use crate::expression::{ParentKind, PathStep};

/// A node of a [`PathTree`].
pub type NodeId = u32;

/// The root of every tree.
pub const ROOT: NodeId = 0;

/// All paths of templates or fields, compiled once.
#[derive(Debug)]
pub struct PathTree {
    pub(crate) nodes: Vec<PathNode>,
}

/// A position in a document.
#[derive(Debug)]
pub(crate) struct PathNode {
    /// Parent node; the root is its own parent.
    pub(crate) parent: NodeId,
    /// Step from the parent; `None` for the root.
    step: Option<PathStep>,
    /// Members, ordered by length, then by bytes.
    pub(crate) members: Vec<(Arc<str>, NodeId)>,
    /// Elements, ordered by index.
    pub(crate) elements: Vec<(u32, NodeId)>,
}

impl PathNode {
    fn new(parent: NodeId, step: Option<PathStep>) -> Self {
        Self {
            parent,
            step,
            members: Vec::new(),
            elements: Vec::new(),
        }
    }

    /// Returns `true` if an index leads to the node.
    pub(super) fn is_element(&self) -> bool {
        matches!(self.step, Some(PathStep::Index { .. }))
    }

    /// Returns the child nodes.
    pub(crate) fn children(&self) -> impl Iterator<Item = NodeId> {
        let members = self.members.iter().map(|(_, node)| *node);
        members.chain(self.elements.iter().map(|(_, node)| *node))
    }

    /// Returns the node of a member.
    #[inline]
    pub(crate) fn member(&self, name: &[u8]) -> Option<NodeId> {
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

impl Default for PathTree {
    fn default() -> Self {
        Self {
            nodes: vec![PathNode::new(ROOT, None)],
        }
    }
}

impl PathTree {
    /// Returns a tree of the root alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a path. Equal paths share their node.
    pub fn add(&mut self, steps: &[PathStep]) -> NodeId {
        let mut at = ROOT;
        for step in steps {
            // The configuration file limits the number of nodes to far less than 4 billion.
            let new = self.nodes.len() as NodeId;
            let node = &mut self.nodes[at as usize];
            let found = match step {
                PathStep::Member(name) => {
                    let members = &mut node.members;
                    match members.binary_search_by(|(n, _)| order(n.as_bytes(), name.as_bytes())) {
                        Ok(i) => Some(members[i].1),
                        Err(i) => {
                            members.insert(i, (Arc::clone(name), new));
                            None
                        }
                    }
                }
                PathStep::Index { index, .. } => {
                    let elements = &mut node.elements;
                    match elements.binary_search_by_key(index, |(index, _)| *index) {
                        Ok(i) => Some(elements[i].1),
                        Err(i) => {
                            elements.insert(i, (*index, new));
                            None
                        }
                    }
                }
            };
            at = found.unwrap_or_else(|| {
                self.nodes.push(PathNode::new(at, Some(step.clone())));
                new
            });
        }
        at
    }

    /// Returns the reason why `node` is missing below a value of kind `parent`.
    pub(crate) fn missing(&self, node: NodeId, parent: ParentKind) -> PathFailure {
        match &self.nodes[node as usize].step {
            Some(step) => step.missing(parent),
            // The root exists, or there is no document.
            None => PathFailure::NotScalar,
        }
    }
}
