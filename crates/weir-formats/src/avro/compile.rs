//! Compiles skip plans.

use std::collections::HashMap;

use super::plan::{Action, ArrayPlan, MapEntry, MapPlan, Plan, ProgramId};
use super::quick::QuickKind;
use super::schema::{AvroSchema, Span, TypeId, TypeKind};
use super::skip::DEPTH_MAX;
use crate::json::{NodeId, PathTree, ROOT};

/// Maximum number of actions in a plan. Schemas with many unions of records with unions could need
/// one program for each combination.
const ACTIONS_MAX: usize = 1 << 18;

/// Maximum number of fields of skipped records that are skipped by actions of their own.
const INLINED_FIELDS_MAX: u32 = 1000;

struct Compiler<'a> {
    schema: &'a AvroSchema,
    paths: &'a PathTree,
    /// By node: it or a node below it is wanted.
    wanted: Vec<bool>,
    plan: Plan,
    /// Programs by node, type, and whether they move to the end of the value.
    programs: HashMap<(NodeId, TypeId, bool), ProgramId>,
    /// Branches of unions, in the same way.
    unions: HashMap<(NodeId, TypeId, bool), Span>,
    inlined_fields: u32,
}

/// Compiles the plan that finds the nodes of a path tree.
pub(super) fn compile(schema: &AvroSchema, paths: &PathTree, nodes: &[NodeId]) -> Plan {
    let mut wanted = vec![false; paths.nodes.len()];
    for &node in nodes {
        let mut node = node;
        while !std::mem::replace(&mut wanted[node as usize], true) {
            node = paths.nodes[node as usize].parent;
        }
    }
    let mut compiler = Compiler {
        schema,
        paths,
        wanted,
        plan: Plan::default(),
        programs: HashMap::new(),
        unions: HashMap::new(),
        inlined_fields: 0,
    };
    if !nodes.is_empty() {
        compiler.plan.main = Some(compiler.program(ROOT, schema.root, false, 0));
    }
    compiler.plan
}

impl Compiler<'_> {
    /// Returns the program for a node of a type inside `depth` records, arrays and maps.
    fn program(&mut self, node: NodeId, id: TypeId, to_end: bool, depth: usize) -> ProgramId {
        let key = (node, id, to_end);
        if let Some(program) = self.programs.get(&key) {
            return *program;
        }
        let mut actions = Vec::new();
        self.value(node, id, to_end, depth, &mut actions);
        // The numbers of actions and programs are limited.
        let span = Span {
            start: self.plan.actions.len() as u32,
            len: actions.len() as u32,
        };
        let program = self.plan.programs.len() as ProgramId;
        self.plan.actions.extend(actions);
        self.plan.programs.push(span);
        self.programs.insert(key, program);
        program
    }

    fn value(
        &mut self,
        node: NodeId,
        id: TypeId,
        to_end: bool,
        depth: usize,
        out: &mut Vec<Action>,
    ) {
        if self.plan.actions.len() + self.plan.branches.len() + out.len() > ACTIONS_MAX {
            self.plan.is_too_large = true;
            return;
        }
        let kind = self.schema.kind(id);
        let has_levels = matches!(
            kind,
            TypeKind::Record(_) | TypeKind::Array(_) | TypeKind::Map(_)
        );
        if has_levels && depth == DEPTH_MAX {
            return out.push(Action::TooDeep);
        }
        if has_levels {
            out.push(Action::TakeComplex(node, id));
        }
        match kind {
            TypeKind::Union(branches) => {
                let span = self.union(node, (id, branches), to_end, depth);
                out.push(Action::EnterUnion(span));
            }
            TypeKind::Record(fields) => self.record(node, fields, to_end, depth + 1, out),
            TypeKind::Array(item) => self.array(node, (id, item), to_end, depth + 1, out),
            TypeKind::Map(value) => self.map(node, (id, value), to_end, depth + 1, out),
            scalar => out.push(Action::TakeScalar(node, scalar)),
        }
    }

    /// Returns the programs of the branches of a union.
    fn union(
        &mut self,
        node: NodeId,
        (id, branches): (TypeId, Span),
        to_end: bool,
        depth: usize,
    ) -> Span {
        if let Some(span) = self.unions.get(&(node, id, to_end)) {
            return *span;
        }
        let schema = self.schema;
        let branches = schema.branches(branches).iter();
        let programs: Vec<_> = branches
            .map(|id| self.program(node, *id, to_end, depth))
            .collect();
        let span = Span {
            start: self.plan.branches.len() as u32,
            len: programs.len() as u32,
        };
        self.plan.branches.extend(programs);
        self.unions.insert((node, id, to_end), span);
        span
    }

    fn record(
        &mut self,
        node: NodeId,
        span: Span,
        to_end: bool,
        depth: usize,
        out: &mut Vec<Action>,
    ) {
        let fields = self.schema.fields(span);
        let children: Vec<_> = fields
            .iter()
            .map(|field| self.member(node, &field.name))
            .collect();
        let last = children.iter().rposition(Option::is_some);
        for (i, (field, child)) in fields.iter().zip(children).enumerate() {
            let is_last = last.is_none_or(|last| i >= last);
            match child {
                Some(child) => self.value(child, field.id, to_end || !is_last, depth, out),
                None if is_last && !to_end => return,
                None => self.skip(field.id, out),
            }
        }
    }

    /// Returns the child of a node with a name, if it is wanted.
    fn member(&self, node: NodeId, name: &str) -> Option<NodeId> {
        let child = self.paths.nodes[node as usize].member(name.as_bytes());
        child.filter(|child| self.wanted[*child as usize])
    }

    fn array(
        &mut self,
        node: NodeId,
        (id, item): (TypeId, TypeId),
        to_end: bool,
        depth: usize,
        out: &mut Vec<Action>,
    ) {
        let paths = self.paths;
        let elements = paths.nodes[node as usize].elements.iter();
        let wanted: Vec<_> = elements
            .filter(|(_, child)| self.wanted[*child as usize])
            .collect();
        if wanted.is_empty() {
            return out.extend(to_end.then_some(Action::SkipValue(id)));
        }
        let count = wanted.len();
        let elements = wanted.into_iter().enumerate().map(|(i, &(index, child))| {
            let to_end = to_end || i + 1 < count;
            (index.into(), self.program(child, item, to_end, depth))
        });
        let elements = elements.collect();
        out.push(Action::EnterArray(self.plan.arrays.len() as u32));
        self.plan.arrays.push(ArrayPlan {
            item,
            elements,
            to_end,
        });
    }

    fn map(
        &mut self,
        node: NodeId,
        (id, value): (TypeId, TypeId),
        to_end: bool,
        depth: usize,
        out: &mut Vec<Action>,
    ) {
        let paths = self.paths;
        let members = paths.nodes[node as usize].members.iter();
        let wanted: Vec<_> = members
            .filter(|(_, child)| self.wanted[*child as usize])
            .collect();
        if wanted.is_empty() {
            return out.extend(to_end.then_some(Action::SkipValue(id)));
        }
        let entries = wanted.into_iter().map(|(key, node)| MapEntry {
            key: key.clone(),
            node: *node,
            program: self.program(*node, value, true, depth),
        });
        let entries = entries.collect();
        out.push(Action::EnterMap(self.plan.maps.len() as u32));
        self.plan.maps.push(MapPlan {
            value,
            entries,
            to_end,
        });
    }

    /// Adds the actions that skip a value, joined with the last action if that is of the same kind.
    fn skip(&mut self, id: TypeId, out: &mut Vec<Action>) {
        let of_type = self.schema.get(id);
        if of_type.size.is_exact {
            let bytes = of_type.size.min;
            match out.last_mut() {
                _ if bytes == 0 => {}
                Some(Action::SkipBytes(count)) => *count = count.saturating_add(bytes),
                _ => out.push(Action::SkipBytes(bytes)),
            }
            return;
        }
        match (of_type.kind, out.last_mut()) {
            (
                TypeKind::Int | TypeKind::Long | TypeKind::Enum(_),
                Some(Action::SkipVarints(count)),
            )
            | (TypeKind::Bytes | TypeKind::String, Some(Action::SkipTexts(count))) => *count += 1,
            (TypeKind::Int | TypeKind::Long | TypeKind::Enum(_), _) => {
                out.push(Action::SkipVarints(1))
            }
            (TypeKind::Bytes | TypeKind::String, _) => out.push(Action::SkipTexts(1)),
            (TypeKind::Record(fields), _) => {
                let count = self.inlined_fields.saturating_add(fields.len);
                if count > INLINED_FIELDS_MAX {
                    return out.push(Action::SkipValue(id));
                }
                // Counting before the fields also ends the recursion of a record in itself.
                self.inlined_fields = count;
                for field in self.schema.fields(fields) {
                    self.skip(field.id, out);
                }
            }
            (TypeKind::Union(branches), _) => out.push(self.skip_union(id, branches)),
            (TypeKind::Array(item), _) => out.push(match self.quick_kind(item) {
                Some(QuickKind::Varint) => Action::SkipVarintsArray(id),
                _ => Action::SkipValue(id),
            }),
            _ => out.push(Action::SkipValue(id)),
        }
    }

    fn skip_union(&self, id: TypeId, branches: Span) -> Action {
        if let [first, second] = *self.schema.branches(branches) {
            let null = self.schema.kind(second) == TypeKind::Null;
            let (null_id, other) = if null {
                (second, first)
            } else {
                (first, second)
            };
            if self.schema.kind(null_id) == TypeKind::Null
                && let Some(kind) = self.quick_kind(other)
            {
                return Action::SkipNullable(id, null, kind);
            }
        }
        Action::SkipValue(id)
    }

    fn quick_kind(&self, id: TypeId) -> Option<QuickKind> {
        let of_type = self.schema.get(id);
        match of_type.kind {
            TypeKind::Int | TypeKind::Long | TypeKind::Enum(_) => Some(QuickKind::Varint),
            TypeKind::Bytes | TypeKind::String => Some(QuickKind::Text),
            _ if of_type.size.is_exact => {
                let bytes = u8::try_from(of_type.size.min);
                bytes.ok().map(QuickKind::Bytes)
            }
            _ => None,
        }
    }
}
