//! Finds the wanted nodes of a record in one pass.

use std::sync::Arc;

use thiserror::Error;

use super::compile::compile;
use super::cursor::{Blocks, Cursor};
use super::error::{AvroError, AvroErrorKind, LocatedError};
use super::plan::Plan;
use super::schema::{AvroSchema, Field, TypeId, TypeKind};
use super::skip::map_blocks;
use super::text::{TextForm, TextWriter, append_bytes, append_fixed};
use super::trace::{check, locate};
use super::walk::{FoundValue, NodeState, PlanRun};
use crate::error::PathFailure;
use crate::expression::ParentKind;
use crate::json::{JsonCheck, NodeId, PathTree, ROOT};
use crate::number::{append_double, append_float, append_integer};
use crate::selector_value::SelectorValue;
use crate::utf8::append_text;

/// Maximum number of plans per reader; the oldest is compiled again when it is needed again.
const PLANS_MAX: usize = 64;

/// Reader with reusable memory. It allocates when it compiles a plan.
#[derive(Debug, Clone, Default)]
pub struct AvroReader {
    plans: Vec<Arc<SelectedPlan>>,
    /// Position of the plan in use.
    current: usize,
    /// Position of the next plan to replace.
    oldest: usize,
    /// Memory for comparing selections.
    nodes: Vec<NodeId>,
    states: Vec<NodeState>,
    /// Number of the current record, for stamps.
    record: u32,
    name: String,
    text: String,
}

/// A plan with all that it depends on.
#[derive(Debug)]
struct SelectedPlan {
    schema: Arc<AvroSchema>,
    paths: Arc<PathTree>,
    nodes: Vec<NodeId>,
    plan: Plan,
}

impl SelectedPlan {
    fn is(&self, schema: &Arc<AvroSchema>, paths: &Arc<PathTree>, nodes: &[NodeId]) -> bool {
        Arc::ptr_eq(&self.schema, schema) && Arc::ptr_eq(&self.paths, paths) && self.nodes == nodes
    }
}

/// Reason why a record has no text for a path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Missing {
    /// The record has no such part, or it is not a single value.
    #[error(transparent)]
    Reason(#[from] PathFailure),
    /// The bytes do not match the schema.
    #[error(transparent)]
    Avro(#[from] AvroError),
}

impl AvroReader {
    /// Selects the schema of the following records, and the nodes of a path tree that are wanted
    /// from them.
    pub fn select(
        &mut self,
        schema: &Arc<AvroSchema>,
        paths: &Arc<PathTree>,
        wanted: impl Iterator<Item = NodeId>,
    ) {
        self.nodes.clear();
        self.nodes.extend(wanted);
        let nodes = &self.nodes;
        let is_same = |plan: &Arc<SelectedPlan>| plan.is(schema, paths, nodes);
        if self.plans.get(self.current).is_some_and(is_same) {
            return;
        }
        if let Some(found) = self.plans.iter().position(is_same) {
            self.current = found;
        } else {
            let new = Arc::new(SelectedPlan {
                schema: Arc::clone(schema),
                paths: Arc::clone(paths),
                nodes: nodes.clone(),
                plan: compile(schema, paths, nodes),
            });
            if self.plans.len() < PLANS_MAX {
                self.current = self.plans.len();
                self.plans.push(new);
            } else {
                self.current = self.oldest;
                self.plans[self.current] = new;
                self.oldest = (self.oldest + 1) % PLANS_MAX;
            }
        }
        if self.states.len() < paths.nodes.len() {
            self.states.resize(paths.nodes.len(), NodeState::default());
        }
        // Values of the last record belong to other nodes.
        self.next_record();
    }

    fn next_record(&mut self) {
        if self.record == u32::MAX {
            self.states.iter_mut().for_each(|state| state.record = 0);
            self.record = 0;
        }
        self.record += 1;
    }

    /// Finds the wanted nodes of a record. An empty record counts as `null`.
    pub(crate) fn read(&mut self, bytes: &[u8], extent: JsonCheck) -> Result<(), AvroError> {
        if !bytes.is_empty() {
            return self.read_body(bytes, extent);
        }
        self.next_record();
        if let Some(root) = self.states.get_mut(ROOT as usize) {
            root.record = self.record;
            root.value = FoundValue::Null;
        }
        Ok(())
    }

    /// Finds the wanted nodes of a record that may be encoded without any byte, as after a schema
    /// id.
    pub fn read_body(&mut self, bytes: &[u8], extent: JsonCheck) -> Result<(), AvroError> {
        self.next_record();
        let Some(selected) = self.plans.get(self.current) else {
            return Ok(());
        };
        let SelectedPlan {
            schema,
            paths,
            plan,
            ..
        } = &**selected;
        let outcome = match extent {
            JsonCheck::Needed => Ok(()),
            JsonCheck::Whole => check(schema, bytes),
        };
        let mut walk = PlanRun {
            schema,
            paths,
            plan,
            states: &mut self.states,
            record: self.record,
            cursor: Cursor::new(bytes, 0),
            uses_last: extent == JsonCheck::Whole,
        };
        let outcome = outcome.and_then(|()| match plan.main {
            // One more value is the size of a type that never fits.
            _ if bytes.len() >= u32::MAX as usize => Err(AvroErrorKind::Size.at(0)),
            _ if plan.is_too_large => Err(AvroErrorKind::Plan.at(0)),
            Some(program) => walk.run(program),
            None => Ok(()),
        });
        outcome.map_err(|fault| locate(schema, bytes, fault))
    }

    /// Appends the value found at `node`; `bytes` must be the last record read.
    pub fn append(
        &self,
        node: NodeId,
        bytes: &[u8],
        complex: bool,
        out: &mut String,
    ) -> Result<SelectorValue, Missing> {
        let (selected, found) = self.found(node)?;
        let schema = &*selected.schema;
        let part = |start: u32, end: u32| &bytes[start as usize..end as usize];
        match found {
            FoundValue::Null => return Ok(SelectorValue::Null),
            FoundValue::Boolean(value) => out.push_str(if value { "true" } else { "false" }),
            FoundValue::Integer(number) => append_integer(number, out),
            FoundValue::Float(number) => append_float(number, out),
            FoundValue::Double(number) => append_double(number, out),
            FoundValue::Text(start, end) => append_text(part(start, end), out),
            FoundValue::Bytes(start, end) => append_bytes(part(start, end), TextForm::Plain, out),
            FoundValue::Fixed(start, end) => append_fixed(part(start, end), out),
            FoundValue::Symbol(index) => out.push_str(&schema.symbols[index as usize]),
            FoundValue::Complex(..) if !complex => return Err(PathFailure::NotScalar.into()),
            FoundValue::Complex(id, at) => {
                let cursor = Cursor::new(bytes, at as usize);
                let outcome = TextWriter::new(schema, cursor, out).append_selected(id);
                outcome.map_err(|fault| Missing::Avro(locate(schema, bytes, fault)))?;
            }
        }
        Ok(SelectorValue::Text)
    }

    /// Returns the value found at a node.
    fn found(&self, node: NodeId) -> Result<(&SelectedPlan, FoundValue), PathFailure> {
        let Some(selected) = self.plans.get(self.current) else {
            return Err(PathFailure::NotScalar);
        };
        match &self.states[node as usize] {
            state if state.record == self.record => Ok((selected, state.value)),
            _ => Err(self.why_missing(selected, node)),
        }
    }

    /// Returns the reason why a node is missing, for the first failing step of its path.
    fn why_missing(&self, selected: &SelectedPlan, node: NodeId) -> PathFailure {
        let mut node = node;
        loop {
            let parent = selected.paths.nodes[node as usize].parent;
            let state = &self.states[parent as usize];
            if state.record == self.record || parent == node {
                let kind = match state.value {
                    FoundValue::Null => ParentKind::Null,
                    FoundValue::Complex(id, _) => match selected.schema.kind(id) {
                        TypeKind::Array(_) => ParentKind::Array,
                        _ => ParentKind::Object,
                    },
                    _ => ParentKind::Scalar,
                };
                return selected.paths.missing(node, kind);
            }
            node = parent;
        }
    }

    /// Calls `emit` with the name, kind and text of each member of the record, map or array found
    /// at `node`; a scalar has none. Elements are named after their array.
    pub fn members(
        &mut self,
        node: NodeId,
        bytes: &[u8],
        array_name: &str,
        emit: &mut dyn FnMut(&str, SelectorValue, &str),
    ) -> Result<(), Missing> {
        let (mut name, mut text) = (
            std::mem::take(&mut self.name),
            std::mem::take(&mut self.text),
        );
        let outcome = self.found(node).map_err(Missing::Reason);
        let outcome = outcome.and_then(|(selected, found)| {
            let FoundValue::Complex(id, at) = found else {
                return Ok(());
            };
            let mut members = Members {
                schema: &selected.schema,
                cursor: Cursor::new(bytes, at as usize),
                name: &mut name,
                text: &mut text,
                emit,
            };
            let outcome = members.all(id, array_name);
            outcome.map_err(|fault| Missing::Avro(locate(&selected.schema, bytes, fault)))
        });
        (self.name, self.text) = (name, text);
        outcome
    }
}

/// Iteration over the members of a record, map or array.
struct Members<'a> {
    schema: &'a AvroSchema,
    cursor: Cursor<'a>,
    name: &'a mut String,
    text: &'a mut String,
    emit: &'a mut dyn FnMut(&str, SelectorValue, &str),
}

impl Members<'_> {
    fn all(&mut self, id: TypeId, array_name: &str) -> Result<(), LocatedError> {
        match self.schema.kind(id) {
            TypeKind::Record(fields) => {
                for Field { name, id } in self.schema.fields(fields) {
                    self.name.clear();
                    self.name.push_str(name);
                    self.one(*id)?;
                }
            }
            TypeKind::Map(value) => {
                let mut blocks = map_blocks(self.schema, value);
                while let Some(block) = blocks.next(&mut self.cursor)? {
                    for _ in 0..block.count {
                        self.name.clear();
                        append_text(self.cursor.bytes()?, self.name);
                        self.one(value)?;
                    }
                    block.check_end(&self.cursor)?;
                }
            }
            TypeKind::Array(item) => {
                let mut blocks = Blocks::new(self.schema.get(item).size.min);
                let mut index = 0;
                while let Some(block) = blocks.next(&mut self.cursor)? {
                    for _ in 0..block.count {
                        self.name.clear();
                        self.name.push_str(array_name);
                        self.name.push('[');
                        append_integer(index, self.name);
                        self.name.push(']');
                        self.one(item)?;
                        index += 1;
                    }
                    block.check_end(&self.cursor)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the value of the named member.
    fn one(&mut self, id: TypeId) -> Result<(), LocatedError> {
        self.text.clear();
        let start = self.cursor;
        let writer = TextWriter::new(self.schema, start, self.text);
        self.cursor.at = writer.append_member(id)?;
        let is_null = match self.schema.kind(id) {
            TypeKind::Null => true,
            TypeKind::Union(branches) => {
                let index = { start }.branch(branches.len)? as usize;
                self.schema.kind(self.schema.branches(branches)[index]) == TypeKind::Null
            }
            _ => false,
        };
        match is_null {
            true => (self.emit)(self.name, SelectorValue::Null, ""),
            false => (self.emit)(self.name, SelectorValue::Text, self.text),
        }
        Ok(())
    }
}
