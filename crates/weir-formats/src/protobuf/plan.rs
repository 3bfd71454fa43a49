//! Compiles the wanted paths into a plan: for each message on these paths, the fields to read.

use super::schema::types::{Field, FieldKind, MessageId, MessageType, Types};
use super::wire::{self, DEPTH_MAX};
use crate::json::{NodeId, PathTree, ROOT};

/// Index of a message plan in [`Plan::messages`].
pub(super) type PlanId = u32;

/// Field numbers below this one are looked up by index, others by binary search.
const DENSE_MAX: u32 = 1024;

/// Fields to read for a set of wanted paths in messages of one type.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    /// Plans of the nodes of the path tree, by [`NodeId`].
    pub(super) nodes: Vec<NodePlan>,
    pub(super) messages: Vec<MessagePlan>,
}

/// How to find the value of a node of the path tree.
#[derive(Debug, Clone, Default)]
pub(super) struct NodePlan {
    pub(super) origin: NodeOrigin,
    pub(super) value: ValuePlan,
    /// `true` if the value itself is wanted, not only a part of it.
    pub(super) is_wanted: bool,
}

/// Relation of a node to its parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NodeOrigin {
    /// None: the node is not wanted, or the message type has no such field.
    #[default]
    Unknown,
    /// A field, which has a value even if it is not set.
    Field,
    /// An element or map entry, which may be missing. Also used for the outermost message, which is
    /// never missing.
    Entry,
}

/// Kind of a node's value, with the parts of it to read.
#[derive(Debug, Clone, Default)]
pub(super) enum ValuePlan {
    /// No value: the node is not wanted, or the message type has no such field.
    #[default]
    Nothing,
    Scalar(FieldId),
    /// A message, with the plan for its fields if some are wanted.
    Message(MessageId, Option<PlanId>),
    /// A repeated field, with the wanted indexes in ascending order.
    List(FieldId, Box<[(u32, NodeId)]>),
    /// A map, with the wanted keys.
    Map(FieldId, Box<[(MapKey, NodeId)]>),
}

/// A field of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldId {
    pub(super) message: MessageId,
    /// Index among the fields of the message, which are sorted by number.
    pub(super) index: u32,
}

impl FieldId {
    pub(super) fn of(self, types: &Types) -> &Field {
        &types.message(self.message).fields[self.index as usize]
    }
}

/// A wanted key of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MapKey {
    Text(Box<str>),
    /// Integers and booleans. Unsigned integers are converted to signed ones, as in Java.
    Number(i64),
}

/// Fields to read in a message.
#[derive(Debug, Clone)]
pub(super) struct MessagePlan {
    pub(super) message: MessageId,
    fields: Vec<FieldPlan>,
    /// Bit set of the field numbers below 64 with a plan. It includes the invalid number 0, so that
    /// this is not skipped but causes an error.
    pub(super) low_numbers: u64,
    /// `true` if field numbers from 64 on have a plan.
    pub(super) has_high_numbers: bool,
    /// For numbers below [`DENSE_MAX`]: the index in `fields` plus 1, or 0 for fields to skip.
    dense: Vec<u32>,
    /// Other numbers, ascending, each with its index in `fields` plus 1.
    sparse: Vec<(u32, u32)>,
}

/// How to read a field.
#[derive(Debug, Clone)]
pub(super) struct FieldPlan {
    /// Wire type of a single value; a field with another one counts as unknown.
    pub(super) wire: u8,
    pub(super) action: Action,
    pub(super) node: NodeId,
    pub(super) field: FieldId,
    /// Nodes of the other wanted members of the oneof, which this field clears.
    pub(super) oneof_siblings: Box<[NodeId]>,
}

/// Action for a field in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Store the last value.
    Scalar,
    /// Store the last value that has a name.
    ClosedEnum,
    Message,
    Group,
    List,
    Map,
    /// Only clear the other members of the oneof.
    Clear,
}

impl MessagePlan {
    /// Returns the plan of a field, or `None` if the field must be skipped.
    #[inline]
    pub(super) fn find(&self, number: u32) -> Option<&FieldPlan> {
        let position = match self.dense.get(number as usize) {
            Some(position) => *position,
            None if self.sparse.is_empty() => return None,
            None => self.find_sparse(number),
        };
        self.fields.get((position as usize).wrapping_sub(1))
    }

    fn find_sparse(&self, number: u32) -> u32 {
        let found = self.sparse.binary_search_by_key(&number, |(n, _)| *n);
        found.map_or(0, |index| self.sparse[index].1)
    }

    fn new(message: MessageId) -> Self {
        Self {
            message,
            fields: Vec::new(),
            low_numbers: 1,
            has_high_numbers: false,
            dense: Vec::new(),
            sparse: Vec::new(),
        }
    }

    fn add(&mut self, number: u32, field: FieldPlan) {
        self.fields.push(field);
        // A message has fewer fields than there are field numbers.
        let position = self.fields.len() as u32;
        match number {
            0..64 => self.low_numbers |= 1 << number,
            _ => self.has_high_numbers = true,
        }
        if number < DENSE_MAX {
            let length = self.dense.len().max(number as usize + 1);
            self.dense.resize(length, 0);
            self.dense[number as usize] = position;
        } else {
            self.sparse.push((number, position));
            self.sparse.sort_unstable_by_key(|(number, _)| *number);
        }
    }
}

/// Compiles the paths to the nodes `wanted` for messages of type `message`.
pub(super) fn compile(
    types: &Types,
    message: MessageId,
    paths: &PathTree,
    wanted: &[NodeId],
) -> Plan {
    let mut compiler = Compiler {
        types,
        paths,
        selected: vec![false; paths.nodes.len()],
        plan: Plan {
            nodes: vec![NodePlan::default(); paths.nodes.len()],
            messages: Vec::new(),
        },
    };
    compiler.selected[ROOT as usize] = true;
    for &node in wanted {
        compiler.plan.nodes[node as usize].is_wanted = true;
        let mut node = node;
        while !compiler.selected[node as usize] {
            compiler.selected[node as usize] = true;
            node = paths.nodes[node as usize].parent;
        }
    }
    compiler.message(ROOT, message, NodeOrigin::Entry, 0);
    compiler.plan
}

struct Compiler<'a> {
    types: &'a Types,
    paths: &'a PathTree,
    /// For each node, `true` if it or a node below it is wanted.
    selected: Vec<bool>,
    plan: Plan,
}

impl Compiler<'_> {
    fn set(&mut self, node: NodeId, origin: NodeOrigin, value: ValuePlan) {
        let plan = &mut self.plan.nodes[node as usize];
        plan.origin = origin;
        plan.value = value;
    }

    /// Compiles a node whose value is a message, `depth` messages below the outermost one.
    fn message(&mut self, node: NodeId, id: MessageId, origin: NodeOrigin, depth: usize) {
        if depth > DEPTH_MAX {
            // The reader rejects messages that are so deep, so the path never has a value.
            return;
        }
        let members = self.paths.nodes[node as usize].members.iter();
        let members: Vec<_> = members
            .filter(|(_, child)| self.selected[*child as usize])
            .filter_map(|(name, child)| {
                let fields = &self.types.message(id).fields;
                let index = fields.iter().position(|field| field.name == *name)?;
                Some((index, *child))
            })
            .collect();
        if members.is_empty() {
            return self.set(node, origin, ValuePlan::Message(id, None));
        }
        // Reserves the index of the plan before those of inner messages.
        let plan_id = self.plan.messages.len() as PlanId;
        self.plan.messages.push(MessagePlan::new(id));
        let value = ValuePlan::Message(id, Some(plan_id));
        self.set(node, origin, value);
        let mut plan = MessagePlan::new(id);
        let types = self.types;
        let message = types.message(id);
        for &(index, child) in &members {
            let field = &message.fields[index];
            let field_id = FieldId {
                message: id,
                index: index as u32,
            };
            let action = self.field(child, field_id, field, depth);
            let siblings = oneof_siblings(message, field, &members, child);
            plan.add(
                field.number,
                field_plan(action, child, field_id, field, siblings),
            );
        }
        add_clearing(message, id, &members, &mut plan);
        self.plan.messages[plan_id as usize] = plan;
    }

    /// Compiles the node of a field.
    fn field(&mut self, node: NodeId, id: FieldId, field: &Field, depth: usize) -> Action {
        if let FieldKind::Map(entry) = field.kind {
            self.map(node, id, entry, depth + 1);
            return Action::Map;
        }
        if field.is_repeated {
            self.list(node, id, field.kind, depth);
            return Action::List;
        }
        self.single(node, id, field.kind, NodeOrigin::Field, depth);
        match field.kind {
            FieldKind::Message(_) => Action::Message,
            FieldKind::Group(_) => Action::Group,
            FieldKind::Enum(id) if self.types.enumeration(id).is_closed => Action::ClosedEnum,
            _ => Action::Scalar,
        }
    }

    /// Compiles a node with a single value: of a field, an element or a map entry.
    fn single(
        &mut self,
        node: NodeId,
        id: FieldId,
        kind: FieldKind,
        origin: NodeOrigin,
        depth: usize,
    ) {
        match kind {
            FieldKind::Message(message) => self.message(node, message, origin, depth + 1),
            // The connector treats a group as a scalar: the text of its message.
            _ => self.set(node, origin, ValuePlan::Scalar(id)),
        }
    }

    fn list(&mut self, node: NodeId, id: FieldId, kind: FieldKind, depth: usize) {
        let elements = self.paths.nodes[node as usize].elements.iter();
        let elements: Box<[_]> = elements
            .filter(|(_, child)| self.selected[*child as usize])
            .copied()
            .collect();
        for (_, child) in &elements {
            self.single(*child, id, kind, NodeOrigin::Entry, depth);
        }
        self.set(node, NodeOrigin::Field, ValuePlan::List(id, elements));
    }

    fn map(&mut self, node: NodeId, id: FieldId, entry: MessageId, depth: usize) {
        let types = self.types;
        let entry_type = types.message(entry);
        let members = &self.paths.nodes[node as usize].members;
        let mut keys = Vec::new();
        // The schema builder has checked that an entry has both fields.
        if let [key, value] = &*entry_type.fields {
            let value_id = FieldId {
                message: entry,
                index: 1,
            };
            for (name, child) in members {
                if !self.selected[*child as usize] {
                    continue;
                }
                if let Some(key) = map_key(key.kind, name) {
                    keys.push((key, *child));
                    self.single(*child, value_id, value.kind, NodeOrigin::Entry, depth);
                }
            }
        }
        self.set(node, NodeOrigin::Field, ValuePlan::Map(id, keys.into()));
    }
}

/// Returns the key whose text is `name`, `None` if no key has that text.
///
/// Java prints unsigned keys as signed numbers; the unsigned text is accepted, too.
fn map_key(kind: FieldKind, name: &str) -> Option<MapKey> {
    match kind {
        FieldKind::String => Some(MapKey::Text(name.into())),
        FieldKind::Bool => match name {
            "true" => Some(MapKey::Number(1)),
            "false" => Some(MapKey::Number(0)),
            _ => None,
        },
        FieldKind::Uint64 | FieldKind::Fixed64 if !name.starts_with('-') => {
            canonical::<u64>(name).map(|number| MapKey::Number(number as i64))
        }
        FieldKind::Uint32 | FieldKind::Fixed32 if !name.starts_with('-') => {
            canonical::<u32>(name).map(|number| MapKey::Number((number as i32).into()))
        }
        FieldKind::Int64
        | FieldKind::Sint64
        | FieldKind::Sfixed64
        | FieldKind::Uint64
        | FieldKind::Fixed64 => canonical(name).map(MapKey::Number),
        _ => canonical::<i32>(name).map(|number| MapKey::Number(number.into())),
    }
}

/// Returns the number whose canonical decimal text is `text`.
fn canonical<N: std::str::FromStr + ToString>(text: &str) -> Option<N> {
    let number = text.parse::<N>().ok()?;
    (number.to_string() == text).then_some(number)
}

fn field_plan(
    action: Action,
    node: NodeId,
    id: FieldId,
    field: &Field,
    oneof_siblings: Box<[NodeId]>,
) -> FieldPlan {
    FieldPlan {
        wire: match action {
            Action::Map => wire::BYTES,
            _ => field.kind.wire(),
        },
        action,
        node,
        field: id,
        oneof_siblings,
    }
}

/// Returns the nodes of the other wanted members of a field's oneof.
fn oneof_siblings(
    message: &MessageType,
    field: &Field,
    members: &[(usize, NodeId)],
    node: NodeId,
) -> Box<[NodeId]> {
    if field.oneof.is_none() {
        return Box::default();
    }
    let same = members
        .iter()
        .filter(|(index, child)| *child != node && message.fields[*index].oneof == field.oneof);
    same.map(|(_, child)| *child).collect()
}

/// Adds plans for unwanted fields in the oneofs of wanted fields: they clear the wanted ones.
fn add_clearing(
    message: &MessageType,
    id: MessageId,
    members: &[(usize, NodeId)],
    plan: &mut MessagePlan,
) {
    let is_wanted = |index: usize| members.iter().any(|(wanted, _)| *wanted == index);
    for (index, field) in message.fields.iter().enumerate() {
        if field.oneof.is_none() || is_wanted(index) {
            continue;
        }
        let siblings = oneof_siblings(message, field, members, NodeId::MAX);
        if siblings.is_empty() {
            continue;
        }
        let field_id = FieldId {
            message: id,
            index: index as u32,
        };
        let action = Action::Clear;
        plan.add(
            field.number,
            field_plan(action, NodeId::MAX, field_id, field, siblings),
        );
    }
}
