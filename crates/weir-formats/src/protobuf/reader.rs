//! Finds the wanted nodes of a message in one pass.

use std::sync::Arc;

use super::check;
use super::error::{Missing, ProtobufError, ProtobufFault, WireError};
use super::field_list::{FieldEntry, FieldList};
use super::member_buffers::MemberBuffers;
use super::plan::{FieldId, NodeOrigin, Plan, ValuePlan, compile};
use super::scalar::append_number;
use super::schema::ProtobufMessage;
use super::schema::types::{FieldKind, MessageId, Types};
use super::text::{Level, TextWriter};
use super::walk::{MessageWalk, NodeState, Span};
use super::wire::Extent;
use crate::error::PathFailure;
use crate::expression::ParentKind;
use crate::json::{JsonCheck, NodeId, PathTree, ROOT};
use crate::selector_value::SelectorValue;
use crate::utf8::append_text;

/// Number of plans that are kept. A topic rarely has records of more message types and versions at
/// a time; older plans are compiled again.
const PLANS_MAX: usize = 16;

/// Reader with reusable memory. It allocates when it compiles a plan, and for large texts.
#[derive(Debug, Clone, Default)]
pub struct ProtobufReader {
    plans: Vec<CompiledPlan>,
    /// Position of the plan for the following records.
    current: usize,
    /// Number of the current document, for the states of all plans.
    document: u32,
    /// Number of selections so far, for the age of plans.
    selections: u64,
    wanted: Vec<NodeId>,
    spans: Vec<Span>,
    list: FieldList,
    pub(super) buffers: MemberBuffers,
}

/// A plan with the states of its nodes.
#[derive(Debug, Clone)]
pub(super) struct CompiledPlan {
    pub(super) message: Arc<ProtobufMessage>,
    paths: Arc<PathTree>,
    wanted: Box<[NodeId]>,
    pub(super) plan: Arc<Plan>,
    pub(super) states: Vec<NodeState>,
    /// Number of the last selection of the plan.
    selection: u64,
}

impl ProtobufReader {
    /// Selects the message type of the following documents and the nodes of a path tree that are
    /// wanted from them.
    pub fn select(
        &mut self,
        message: &Arc<ProtobufMessage>,
        paths: &Arc<PathTree>,
        wanted: impl Iterator<Item = NodeId>,
    ) {
        self.wanted.clear();
        self.wanted.extend(wanted);
        self.selections += 1;
        let found = self.plans.iter().position(|plan| {
            Arc::ptr_eq(&plan.message.types, &message.types)
                && plan.message.id == message.id
                && Arc::ptr_eq(&plan.paths, paths)
                && *plan.wanted == *self.wanted
        });
        self.current = found.unwrap_or_else(|| self.compile(message, paths));
        self.plans[self.current].selection = self.selections;
    }

    /// Compiles a plan. Returns its position, that of the oldest plan if there are too many.
    fn compile(&mut self, message: &Arc<ProtobufMessage>, paths: &Arc<PathTree>) -> usize {
        let plan = compile(&message.types, message.id, paths, &self.wanted);
        let compiled = CompiledPlan {
            message: Arc::clone(message),
            paths: Arc::clone(paths),
            wanted: self.wanted.as_slice().into(),
            plan: Arc::new(plan),
            states: vec![NodeState::default(); paths.nodes.len()],
            selection: 0,
        };
        if self.plans.len() < PLANS_MAX {
            self.plans.push(compiled);
            return self.plans.len() - 1;
        }
        let ages = self.plans.iter().map(|plan| plan.selection).enumerate();
        let oldest = ages.min_by_key(|(_, selection)| *selection);
        let oldest = oldest.map_or(0, |(position, _)| position);
        self.plans[oldest] = compiled;
        oldest
    }

    /// Finds the wanted nodes of a document. A document without bytes is a message without fields.
    pub fn read(&mut self, bytes: &[u8], extent: JsonCheck) -> Result<(), ProtobufError> {
        let Some(compiled) = self.plans.get_mut(self.current) else {
            return Ok(());
        };
        let types = &*compiled.message.types;
        let id = compiled.message.id;
        if u32::try_from(bytes.len()).is_err() {
            return Err(located(types, (id, 0), ProtobufFault::Size.at(0)));
        }
        if self.document == u32::MAX {
            let states = self.plans.iter_mut().flat_map(|plan| &mut plan.states);
            states.for_each(|state| state.document = 0);
            self.document = 0;
            return self.read(bytes, extent);
        }
        self.document += 1;
        self.spans.clear();
        if extent == JsonCheck::Whole {
            self.list.reset();
            check::check(types, id, bytes, &mut self.list)
                .map_err(|(place, error)| located(types, place, error))?;
        }
        let mut walk = MessageWalk {
            bytes,
            types,
            plan: &compiled.plan,
            paths: &compiled.paths,
            states: &mut compiled.states,
            spans: &mut self.spans,
            document: self.document,
            place: None,
        };
        let whole = Extent {
            at: 0,
            end: bytes.len(),
        };
        walk.value_message(ROOT, whole, 0)
            .map_err(|error| located(types, walk.place.unwrap_or((id, 0)), error))
    }

    /// Appends the value found at `node`; `bytes` must be the last document read.
    pub fn append(
        &mut self,
        node: NodeId,
        bytes: &[u8],
        complex: bool,
        out: &mut String,
    ) -> Result<SelectorValue, Missing> {
        let Some(compiled) = self.plans.get(self.current) else {
            return Err(Missing::Reason(PathFailure::NotScalar));
        };
        let is_set = compiled.find(node, self.document)?;
        let value = &compiled.plan.nodes[node as usize].value;
        match value {
            ValuePlan::Scalar(field) => {
                let kind = field.of(&compiled.message.types).kind;
                if is_set && matches!(kind, FieldKind::Group(_)) {
                    return self.append_complex(node, bytes, out);
                }
                let value = is_set.then(|| compiled.states[node as usize].value);
                compiled.append_scalar(*field, value, bytes, out)?;
                Ok(SelectorValue::Text)
            }
            _ if !complex => Err(Missing::Reason(PathFailure::NotScalar)),
            _ if !is_set => Ok(SelectorValue::Text),
            _ => self.append_complex(node, bytes, out),
        }
    }

    /// Appends the text of a message, group, list or map that is set.
    fn append_complex(
        &mut self,
        node: NodeId,
        bytes: &[u8],
        out: &mut String,
    ) -> Result<SelectorValue, Missing> {
        let Some(compiled) = self.plans.get(self.current) else {
            return Err(Missing::Reason(PathFailure::NotScalar));
        };
        let first_span = compiled.states[node as usize].first_span;
        let depth = compiled.depth(node);
        let types = &*compiled.message.types;
        self.list.reset();
        let value = &compiled.plan.nodes[node as usize].value;
        let number = match value {
            ValuePlan::List(field, _) | ValuePlan::Map(field, _) => field.of(types).number,
            _ => 1,
        };
        push_spans(&self.spans, first_span, number, &mut self.list);
        let chunks = 0..self.list.len();
        let mut writer = TextWriter {
            types,
            bytes,
            list: &mut self.list,
            start: out.len(),
            out,
            place: None,
        };
        let level = Level { indent: 0, depth };
        let (place, written) = match value {
            ValuePlan::Message(id, _) => ((*id, 0), writer.message(*id, chunks, level)),
            ValuePlan::Scalar(field) => match field.of(types).kind {
                FieldKind::Group(id) => ((id, 0), writer.message(id, chunks, level)),
                _ => ((field.message, 0), Ok(())),
            },
            ValuePlan::List(field, _) | ValuePlan::Map(field, _) => {
                let schema_field = field.of(types);
                let place = (field.message, schema_field.number);
                // The field is one level above its elements.
                let level = Level {
                    indent: 0,
                    depth: depth.saturating_sub(1),
                };
                (place, writer.field(schema_field, chunks, level))
            }
            ValuePlan::Nothing => return Err(Missing::Reason(PathFailure::NotScalar)),
        };
        let place = writer.place.unwrap_or(place);
        written.map_err(|error| located(types, place, error))?;
        Ok(SelectorValue::Text)
    }

    /// Returns the plan of the current document, the number of the document, its spans and the
    /// stack of lists.
    pub(super) fn parts_mut(&mut self) -> Option<(&CompiledPlan, u32, &[Span], &mut FieldList)> {
        let compiled = self.plans.get(self.current)?;
        Some((compiled, self.document, &self.spans, &mut self.list))
    }
}

impl CompiledPlan {
    /// Returns `true` if a value was found for the node and `false` if it has its default. Fails
    /// for the first step of its path that does not exist.
    pub(super) fn find(&self, node: NodeId, document: u32) -> Result<bool, Missing> {
        let mut failing = None;
        let mut at = node;
        while at != ROOT && self.states[at as usize].document != document {
            if self.plan.nodes[at as usize].origin != NodeOrigin::Field {
                failing = Some(at);
            }
            at = self.paths.nodes[at as usize].parent;
        }
        let Some(failing) = failing else {
            let state = &self.states[node as usize];
            return Ok(state.document == document && !state.is_default);
        };
        let parent = self.paths.nodes[failing as usize].parent;
        let kind = match self.plan.nodes[parent as usize].value {
            ValuePlan::Message(..) | ValuePlan::Map(..) => ParentKind::Object,
            ValuePlan::List(..) => ParentKind::Array,
            ValuePlan::Scalar(_) | ValuePlan::Nothing => ParentKind::Scalar,
        };
        Err(Missing::Reason(self.paths.missing(failing, kind)))
    }

    /// Returns the number of messages around a node, with the entries of maps.
    pub(super) fn depth(&self, mut node: NodeId) -> usize {
        let mut depth = 0;
        while node != ROOT {
            let parent = self.paths.nodes[node as usize].parent;
            depth += usize::from(!matches!(
                self.plan.nodes[parent as usize].value,
                ValuePlan::List(..)
            ));
            node = parent;
        }
        depth
    }

    /// Appends a scalar, or its default if there is no value.
    fn append_scalar(
        &self,
        id: FieldId,
        value: Option<u64>,
        bytes: &[u8],
        out: &mut String,
    ) -> Result<(), ProtobufError> {
        let types = &*self.message.types;
        let field = id.of(types);
        let Some(value) = value else {
            out.push_str(&field.default);
            return Ok(());
        };
        match field.kind {
            FieldKind::String | FieldKind::Bytes => {
                let extent = Extent::unpack(value);
                let content = &bytes[extent.at..extent.end];
                match std::str::from_utf8(content) {
                    Ok(text) => out.push_str(text),
                    Err(error) if field.kind == FieldKind::String && field.checks_encoding => {
                        let at = extent.at + error.valid_up_to();
                        let error = ProtobufFault::Encoding.at(at);
                        return Err(located(types, (id.message, field.number), error));
                    }
                    Err(_) => append_text(content, out),
                }
            }
            kind => append_number(kind, value, &types.enums, out),
        }
        Ok(())
    }
}

/// Pushes the spans of a node as entries of a field.
pub(super) fn push_spans(spans: &[Span], first: u32, number: u32, list: &mut FieldList) {
    let mut next = first;
    while let Some(span) = next.checked_sub(1).and_then(|i| spans.get(i as usize)) {
        list.push(FieldEntry::new(number, span.wire, span.extent));
        next = span.next;
    }
}

/// Returns an error with the full name of its field.
#[cold]
pub(super) fn located(
    types: &Types,
    (message, number): (MessageId, u32),
    error: WireError,
) -> ProtobufError {
    let message = types.message(message);
    match message.field(number) {
        Some(field) => error.in_place(&format!("{}.{}", message.name, field.name)),
        None if number == 0 => error.in_place(&message.name),
        None => error.in_place(&format!("field {number} of {}", message.name)),
    }
}
