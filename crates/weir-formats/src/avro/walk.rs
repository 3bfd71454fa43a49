//! Runs a skip plan over a record.

use super::cursor::{Blocks, Cursor};
use super::error::{AvroErrorKind, LocatedError};
use super::plan::{Action, ArrayPlan, MapPlan, Plan, ProgramId};
use super::quick::{self, QuickKind};
use super::schema::{AvroSchema, Span, TypeId, TypeKind};
use super::skip::{DEPTH_MAX, map_blocks, skip, skip_items};
use crate::json::{NodeId, PathTree};

/// State of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NodeState {
    /// Number of the last record in which the node was found.
    pub(super) record: u32,
    pub(super) value: FoundValue,
}

/// A found value. Positions are those of the first byte and after the last.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum FoundValue {
    #[default]
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f32),
    Double(f64),
    Text(u32, u32),
    Bytes(u32, u32),
    Fixed(u32, u32),
    /// Position in the schema's table of symbols.
    Symbol(u32),
    /// Type of a record, array or map and its position.
    Complex(TypeId, u32),
}

/// One run of a plan.
pub(super) struct PlanRun<'a> {
    pub(super) schema: &'a AvroSchema,
    pub(super) paths: &'a PathTree,
    pub(super) plan: &'a Plan,
    pub(super) states: &'a mut [NodeState],
    /// Number of the record.
    pub(super) record: u32,
    pub(super) cursor: Cursor<'a>,
    /// Of a repeated key of a map the last one is used, otherwise the first one.
    pub(super) uses_last: bool,
}

impl PlanRun<'_> {
    /// Runs a program from the position of the cursor, and moves it behind the last value.
    pub(super) fn run(&mut self, program: ProgramId) -> Result<(), LocatedError> {
        let bytes = self.cursor.bytes;
        // Each action waits for the position that the last one has left. That is fast only in a
        // register, which functions that are called by reference do not reach.
        let mut rest = &bytes[self.cursor.at..];
        for action in self.plan.program(program) {
            let quick = match *action {
                Action::SkipBytes(count) => rest.get(count as usize..),
                Action::SkipVarints(count) => quick::skip_all(QuickKind::Varint, count, rest),
                Action::SkipTexts(count) => quick::skip_all(QuickKind::Text, count, rest),
                Action::SkipNullable(_, null, kind) => quick::skip_nullable(null, kind, rest),
                Action::SkipVarintsArray(_) => quick::skip_varints_array(rest),
                Action::TakeScalar(node, TypeKind::String) => self.take_text(node, rest),
                Action::TakeComplex(node, id) => {
                    let at = bytes.len() - rest.len();
                    self.set(node, FoundValue::Complex(id, at as u32));
                    Some(rest)
                }
                _ => None,
            };
            rest = match quick {
                Some(rest) => rest,
                None => {
                    self.cursor.at = bytes.len() - rest.len();
                    self.step(*action)?;
                    &bytes[self.cursor.at..]
                }
            };
        }
        self.cursor.at = bytes.len() - rest.len();
        Ok(())
    }

    /// Runs an action by the code for all values.
    #[inline(never)]
    fn step(&mut self, action: Action) -> Result<(), LocatedError> {
        let plan = self.plan;
        match action {
            Action::SkipBytes(count) => drop(self.cursor.take(count.into())?),
            Action::SkipVarints(count) => self.cursor.skip_varints(count.into())?,
            Action::SkipTexts(count) => {
                for _ in 0..count {
                    self.cursor.bytes()?;
                }
            }
            Action::SkipNullable(id, ..) | Action::SkipVarintsArray(id) | Action::SkipValue(id) => {
                skip(self.schema, &mut self.cursor, id)?;
            }
            Action::TakeScalar(node, kind) => self.take(node, kind)?,
            // Reads nothing, so `run` has recorded it.
            Action::TakeComplex(..) => {}
            Action::EnterUnion(branches) => {
                let index = self.cursor.branch(branches.len)? as usize;
                let program = branches.of(&plan.branches)[index];
                match *plan.program(program) {
                    // A nullable scalar.
                    [Action::TakeScalar(node, kind)] => self.take(node, kind)?,
                    _ => self.run(program)?,
                }
            }
            Action::EnterArray(array) => self.array(&plan.arrays[array as usize])?,
            Action::EnterMap(map) => self.map(&plan.maps[map as usize])?,
            Action::TooDeep => return Err(AvroErrorKind::Depth(DEPTH_MAX).at(self.cursor.at)),
        }
        Ok(())
    }

    /// Records a text. Returns the bytes after it, or `None` if [`quick`] leaves it to other code.
    #[inline(always)]
    fn take_text<'b>(&mut self, node: NodeId, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (text, rest) = quick::text(bytes)?;
        // The length of the record fits into 32 bits.
        let end = self.cursor.bytes.len() - rest.len();
        let found = FoundValue::Text((end - text.len()) as u32, end as u32);
        self.set(node, found);
        Some(rest)
    }

    #[inline]
    fn set(&mut self, node: NodeId, value: FoundValue) {
        self.states[node as usize] = NodeState {
            record: self.record,
            value,
        };
    }

    fn take(&mut self, node: NodeId, kind: TypeKind) -> Result<(), LocatedError> {
        let found = self.scalar(kind)?;
        self.set(node, found);
        Ok(())
    }

    #[inline]
    fn scalar(&mut self, kind: TypeKind) -> Result<FoundValue, LocatedError> {
        let cursor = &mut self.cursor;
        // The length of the record fits into 32 bits.
        let span = |length: usize, end: usize| ((end - length) as u32, end as u32);
        Ok(match kind {
            TypeKind::Boolean => FoundValue::Boolean(cursor.boolean()?),
            TypeKind::Int => FoundValue::Integer(cursor.int()?.into()),
            TypeKind::Long => FoundValue::Integer(cursor.long()?),
            TypeKind::Float => FoundValue::Float(cursor.float()?),
            TypeKind::Double => FoundValue::Double(cursor.double()?),
            TypeKind::String => {
                let length = cursor.bytes()?.len();
                let (start, end) = span(length, cursor.at);
                FoundValue::Text(start, end)
            }
            TypeKind::Bytes => {
                let length = cursor.bytes()?.len();
                let (start, end) = span(length, cursor.at);
                FoundValue::Bytes(start, end)
            }
            TypeKind::Fixed(size) => {
                let length = cursor.take(size.into())?.len();
                let (start, end) = span(length, cursor.at);
                FoundValue::Fixed(start, end)
            }
            TypeKind::Enum(Span { start, len }) => FoundValue::Symbol(start + cursor.symbol(len)?),
            // The compiler makes other actions for the other kinds.
            _ => FoundValue::Null,
        })
    }

    fn array(&mut self, array: &ArrayPlan) -> Result<(), LocatedError> {
        let mut elements = array.elements.iter().peekable();
        let mut blocks = Blocks::new(self.schema.get(array.item).size.min);
        let mut position = 0;
        while let Some(block) = blocks.next(&mut self.cursor)? {
            let end = position + block.count;
            while let Some((index, program)) = elements.next_if(|(index, _)| *index < end) {
                self.skip_items(array.item, index - position)?;
                self.run(*program)?;
                position = index + 1;
                if elements.peek().is_none() && !array.to_end {
                    return Ok(());
                }
            }
            if !block.leave(&mut self.cursor)? {
                self.skip_items(array.item, end - position)?;
            }
            position = end;
        }
        Ok(())
    }

    fn skip_items(&mut self, item: TypeId, count: u64) -> Result<(), LocatedError> {
        match count {
            0 => Ok(()),
            _ => skip_items(self.schema, &mut self.cursor, item, count),
        }
    }

    fn map(&mut self, map: &MapPlan) -> Result<(), LocatedError> {
        let mut missing = map.entries.len();
        let mut blocks = map_blocks(self.schema, map.value);
        while let Some(block) = blocks.next(&mut self.cursor)? {
            let mut rest = block.count;
            while rest > 0 {
                if missing == 0 && !self.uses_last {
                    if !map.to_end {
                        return Ok(());
                    }
                    if block.leave(&mut self.cursor)? {
                        break;
                    }
                }
                rest -= 1;
                let key = self.cursor.bytes()?;
                let entry = map.entry(key);
                let entry = entry.filter(|entry| self.uses_last || !self.is_found(entry.node));
                let Some(entry) = entry else {
                    skip(self.schema, &mut self.cursor, map.value)?;
                    continue;
                };
                self.clear(entry.node);
                self.run(entry.program)?;
                missing = missing.saturating_sub(1);
                let state = &mut self.states[entry.node as usize];
                if state.value == FoundValue::Null {
                    // The connector treats an entry with the value null as missing.
                    state.record = 0;
                }
            }
            if rest == 0 {
                block.check_end(&self.cursor)?;
            }
        }
        Ok(())
    }

    fn is_found(&self, node: NodeId) -> bool {
        self.states[node as usize].record == self.record
    }

    /// Clears the values recorded for a node and the nodes below it.
    fn clear(&mut self, node: NodeId) {
        if !self.is_found(node) {
            return;
        }
        self.states[node as usize].record = 0;
        let paths = self.paths;
        for child in paths.nodes[node as usize].children() {
            self.clear(child);
        }
    }
}
