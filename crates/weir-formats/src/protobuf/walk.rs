//! Runs a plan over the bytes of a message: records wanted values and skips all other fields.

use super::error::WireError;
use super::field_list::enter;
use super::plan::{Action, FieldPlan, MapKey, NodePlan, Plan, PlanId, ValuePlan};
use super::schema::types::{Field, FieldKind, MessageId, Types};
use super::wire::{self, BYTES, Extent, FIXED32, FIXED64, Tag};
use crate::json::{NodeId, PathTree};

/// State of a node of the path tree.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NodeState {
    /// Number of the last document in which the node was found.
    pub(super) document: u32,
    /// Elements of a list that were found so far.
    count: u32,
    /// Wanted elements of a list that were found so far.
    found: u32,
    /// First and last of the node's spans, from 1; 0 for none.
    pub(super) first_span: u32,
    last_span: u32,
    /// A map entry without a value.
    pub(super) is_default: bool,
    /// Bits of a number, or the packed extent of bytes.
    pub(super) value: u64,
}

/// A part of a message, list or map that is wanted as text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) extent: Extent,
    pub(super) wire: u8,
    /// Next span of the node, from 1; 0 for none.
    pub(super) next: u32,
}

/// A pass over a message.
pub(super) struct MessageWalk<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) types: &'a Types,
    pub(super) plan: &'a Plan,
    pub(super) paths: &'a PathTree,
    pub(super) states: &'a mut [NodeState],
    pub(super) spans: &'a mut Vec<Span>,
    pub(super) document: u32,
    /// Message and number of the field with an error.
    pub(super) place: Option<(MessageId, u32)>,
}

impl<'a> MessageWalk<'a> {
    /// Records the message at a node, which is merged with what was recorded for it before.
    pub(super) fn value_message(
        &mut self,
        node: NodeId,
        extent: Extent,
        depth: usize,
    ) -> Result<(), WireError> {
        self.open(node);
        let node_plan = self.node_plan(node);
        if node_plan.is_wanted {
            self.add_span(node, extent, BYTES);
        }
        match node_plan.value {
            ValuePlan::Message(_, Some(plan)) => self.message(plan, extent, depth),
            _ => Ok(()),
        }
    }

    /// Reads the fields of a message.
    fn message(&mut self, plan: PlanId, extent: Extent, depth: usize) -> Result<(), WireError> {
        let plans = self.plan;
        let plan = &plans.messages[plan as usize];
        let bytes = &self.bytes[..extent.end];
        let mut at = extent.at;
        loop {
            let rest =
                wire::skip_unplanned_fields(&bytes[at..], plan.low_numbers, plan.has_high_numbers);
            if rest.is_empty() {
                return Ok(());
            }
            at = bytes.len() - rest.len();
            let (tag, value) = match wire::tag(bytes, at) {
                Ok(read) => read,
                Err(error) => return Err(self.located(error, plan.message, 0)),
            };
            let next = match plan.find(tag.number) {
                None => wire::skip(bytes, value, tag, depth),
                Some(field) => self.field(field, bytes, tag, value, depth),
            };
            at = match next {
                Ok(next) => next,
                Err(error) => return Err(self.located(error, plan.message, tag.number)),
            };
        }
    }

    #[cold]
    fn located(&mut self, error: WireError, message: MessageId, number: u32) -> WireError {
        self.place.get_or_insert((message, number));
        error
    }

    /// Reads a field of the plan; `at` is the position after its tag. Returns the position after
    /// it.
    #[inline]
    fn field(
        &mut self,
        field: &'a FieldPlan,
        bytes: &'a [u8],
        tag: Tag,
        at: usize,
        depth: usize,
    ) -> Result<usize, WireError> {
        if field.action != Action::Scalar || tag.wire != field.wire {
            return self.other_field(field, bytes, tag, at, depth);
        }
        let (value, next) = scalar(bytes, at, tag.wire)?;
        let state = &mut self.states[field.node as usize];
        state.value = value;
        state.document = self.document;
        self.clear_siblings(field);
        Ok(next)
    }

    fn other_field(
        &mut self,
        field: &'a FieldPlan,
        bytes: &'a [u8],
        tag: Tag,
        at: usize,
        depth: usize,
    ) -> Result<usize, WireError> {
        let schema_field = field.field.of(self.types);
        if field.action == Action::List {
            return self.list(field, schema_field, bytes, tag, at, depth);
        }
        let next = wire::skip(bytes, at, tag, depth)?;
        if tag.wire != field.wire {
            return Ok(next);
        }
        match field.action {
            Action::Map => self.map_entry(field.node, bytes, at, depth)?,
            Action::Clear if !self.is_nameless(schema_field.kind, bytes, at)? => {}
            Action::Clear => return Ok(next),
            _ => {
                if !self.value(field.node, schema_field.kind, bytes, tag, at, depth)? {
                    return Ok(next);
                }
            }
        }
        self.clear_siblings(field);
        Ok(next)
    }

    #[inline]
    fn clear_siblings(&mut self, field: &FieldPlan) {
        for sibling in &field.oneof_siblings {
            self.clear(*sibling);
        }
    }

    /// Clears what was recorded for a node and the nodes below it.
    fn clear(&mut self, node: NodeId) {
        let state = &mut self.states[node as usize];
        if state.document != self.document {
            return;
        }
        state.document = 0;
        let paths = self.paths;
        for child in paths.nodes[node as usize].children() {
            self.clear(child);
        }
    }

    /// Marks a node as found. Its state is that of an empty value if it was not found before.
    fn open(&mut self, node: NodeId) {
        let document = self.document;
        let state = &mut self.states[node as usize];
        if state.document != document {
            *state = NodeState {
                document,
                ..NodeState::default()
            };
        }
    }

    fn add_span(&mut self, node: NodeId, extent: Extent, wire: u8) {
        self.spans.push(Span {
            extent,
            wire,
            next: 0,
        });
        // Each span has at least two bytes of a document of less than 4 GiB.
        let number = self.spans.len() as u32;
        let state = &mut self.states[node as usize];
        let last = std::mem::replace(&mut state.last_span, number);
        match last.checked_sub(1) {
            Some(last) => self.spans[last as usize].next = number,
            None => state.first_span = number,
        }
    }

    /// Records a single value of wire type `tag.wire`, which is that of `kind`. Returns `false` for
    /// a number without a name in a closed enum, which is not recorded.
    fn value(
        &mut self,
        node: NodeId,
        kind: FieldKind,
        bytes: &'a [u8],
        tag: Tag,
        at: usize,
        depth: usize,
    ) -> Result<bool, WireError> {
        match kind {
            FieldKind::Message(_) => {
                let inner = enter(depth, at)?;
                let extent = wire::length(bytes, at)?;
                self.value_message(node, extent, inner)?;
            }
            FieldKind::Group(_) => {
                let (extent, _) = wire::group(bytes, at, tag.number, depth)?;
                self.open(node);
                self.add_span(node, extent, BYTES);
            }
            _ => {
                if self.is_nameless(kind, bytes, at)? {
                    return Ok(false);
                }
                let (value, _) = scalar(bytes, at, tag.wire)?;
                self.open(node);
                self.states[node as usize].value = value;
            }
        }
        self.states[node as usize].is_default = false;
        Ok(true)
    }

    /// Returns `true` for a number without a name in a closed enum.
    fn is_nameless(&self, kind: FieldKind, bytes: &[u8], at: usize) -> Result<bool, WireError> {
        let FieldKind::Enum(id) = kind else {
            return Ok(false);
        };
        let values = self.types.enumeration(id);
        if !values.is_closed {
            return Ok(false);
        }
        let (raw, _) = wire::varint(bytes, at)?;
        Ok(values.name(raw as i32).is_none())
    }

    fn node_plan(&self, node: NodeId) -> &'a NodePlan {
        &self.plan.nodes[node as usize]
    }

    /// Reads an occurrence of a repeated field. Returns the position after it.
    fn list(
        &mut self,
        field: &'a FieldPlan,
        schema_field: &Field,
        bytes: &'a [u8],
        tag: Tag,
        at: usize,
        depth: usize,
    ) -> Result<usize, WireError> {
        let kind = schema_field.kind;
        let next = wire::skip(bytes, at, tag, depth)?;
        let is_packed = tag.wire != field.wire;
        if is_packed && !(tag.wire == BYTES && kind.is_packable()) {
            return Ok(next);
        }
        let node = field.node;
        self.open(node);
        let node_plan = self.node_plan(node);
        if node_plan.is_wanted {
            let extent = match tag.wire {
                BYTES => wire::length(bytes, at)?,
                wire::GROUP_START => wire::group(bytes, at, tag.number, depth)?.0,
                _ => Extent { at, end: next },
            };
            self.add_span(node, extent, tag.wire);
        }
        let ValuePlan::List(_, wanted) = &node_plan.value else {
            return Ok(next);
        };
        let found = self.states[node as usize].found as usize;
        let wanted = wanted.get(found..).unwrap_or_default();
        if wanted.is_empty() {
            return Ok(next);
        }
        if is_packed {
            let extent = wire::length(bytes, at)?;
            self.packed(node, kind, extent, wanted)?;
            return Ok(next);
        }
        if self.is_nameless(kind, bytes, at)? {
            return Ok(next);
        }
        let state = &mut self.states[node as usize];
        let index = state.count;
        state.count += 1;
        if let Some((_, child)) = wanted.first().filter(|(first, _)| *first == index) {
            state.found += 1;
            self.value(*child, kind, bytes, tag, at, depth)?;
        }
        Ok(next)
    }

    /// Reads a packed list, of which the elements `wanted` are not found yet.
    fn packed(
        &mut self,
        node: NodeId,
        kind: FieldKind,
        extent: Extent,
        wanted: &[(u32, NodeId)],
    ) -> Result<(), WireError> {
        let bytes = &self.bytes[..extent.end];
        let width = match kind.wire() {
            FIXED32 => 4,
            FIXED64 => 8,
            _ => return self.packed_varints(node, kind, extent, wanted),
        };
        let count = (extent.end - extent.at).div_ceil(width);
        let before = self.states[node as usize].count;
        for &(index, child) in wanted {
            let offset = (index - before) as usize;
            if offset >= count {
                break;
            }
            let (value, _) = wire::number(bytes, extent.at + offset * width, kind.wire())?;
            self.record_element(node, child, value);
        }
        // The length fits into 32 bits.
        self.states[node as usize].count = before + count as u32;
        Ok(())
    }

    fn packed_varints(
        &mut self,
        node: NodeId,
        kind: FieldKind,
        extent: Extent,
        wanted: &[(u32, NodeId)],
    ) -> Result<(), WireError> {
        let bytes = &self.bytes[..extent.end];
        let mut wanted = wanted.iter();
        let mut target = wanted.next();
        let mut index = self.states[node as usize].count;
        let mut at = extent.at;
        while at < bytes.len() {
            let Some((position, child)) = target else {
                break;
            };
            if self.is_nameless(kind, bytes, at)? {
                at = wire::skip_varint(bytes, at)?;
                continue;
            }
            if *position == index {
                let (value, next) = wire::varint(bytes, at)?;
                self.record_element(node, *child, value);
                target = wanted.next();
                at = next;
            } else {
                at = wire::skip_varint(bytes, at)?;
            }
            index += 1;
        }
        self.states[node as usize].count = index;
        Ok(())
    }

    fn record_element(&mut self, list: NodeId, child: NodeId, value: u64) {
        self.open(child);
        self.states[child as usize].value = value;
        self.states[list as usize].found += 1;
    }

    /// Reads an entry of a map; `at` is the position of its length.
    fn map_entry(
        &mut self,
        node: NodeId,
        bytes: &'a [u8],
        at: usize,
        depth: usize,
    ) -> Result<(), WireError> {
        let inner = enter(depth, at)?;
        let extent = wire::length(bytes, at)?;
        self.open(node);
        let node_plan = self.node_plan(node);
        if node_plan.is_wanted {
            self.add_span(node, extent, BYTES);
        }
        let ValuePlan::Map(field, keys) = &node_plan.value else {
            return Ok(());
        };
        let FieldKind::Map(entry) = field.of(self.types).kind else {
            return Ok(());
        };
        // The build of the schema has checked that an entry has both fields.
        let [key, value] = &*self.types.message(entry).fields else {
            return Ok(());
        };
        if keys.is_empty() {
            return Ok(());
        }
        let result = self.entry_fields(keys, [key, value], bytes, extent, inner);
        result.map_err(|error| self.located(error, entry, 0))
    }

    fn entry_fields(
        &mut self,
        keys: &[(MapKey, NodeId)],
        [key, value]: [&Field; 2],
        bytes: &'a [u8],
        extent: Extent,
        depth: usize,
    ) -> Result<(), WireError> {
        let bytes = &bytes[..extent.end];
        let Some(child) = entry_node(keys, key, bytes, extent.at, depth)? else {
            return Ok(());
        };
        // The last entry with a key replaces others.
        self.clear(child);
        self.open(child);
        self.states[child as usize].is_default = true;
        let mut at = extent.at;
        while at < bytes.len() {
            let (tag, value_at) = wire::tag(bytes, at)?;
            at = wire::skip(bytes, value_at, tag, depth)?;
            if (tag.number, tag.wire) == (value.number, value.kind.wire()) {
                self.value(child, value.kind, bytes, tag, value_at, depth)?;
            }
        }
        Ok(())
    }
}

/// Returns the wanted node of a map entry by its key.
fn entry_node(
    keys: &[(MapKey, NodeId)],
    key: &Field,
    bytes: &[u8],
    start: usize,
    depth: usize,
) -> Result<Option<NodeId>, WireError> {
    // The default of all types: 0, or the empty text.
    let mut raw = 0;
    let mut at = start;
    while at < bytes.len() {
        let (tag, value_at) = wire::tag(bytes, at)?;
        at = wire::skip(bytes, value_at, tag, depth)?;
        if (tag.number, tag.wire) == (key.number, key.kind.wire()) {
            raw = scalar(bytes, value_at, tag.wire)?.0;
        }
    }
    let number = super::scalar::signed(key.kind, raw);
    let is_key = |wanted: &MapKey| match wanted {
        MapKey::Number(wanted) => *wanted == number,
        MapKey::Text(wanted) => {
            let Extent { at, end } = Extent::unpack(raw);
            wanted.as_bytes() == &bytes[at..end]
        }
    };
    let found = keys.iter().find(|(wanted, _)| is_key(wanted));
    Ok(found.map(|(_, node)| *node))
}

/// Reads a number, or the packed extent of bytes. Returns it and the position after the value.
#[inline]
fn scalar(bytes: &[u8], at: usize, wire: u8) -> Result<(u64, usize), WireError> {
    if wire == BYTES {
        let extent = wire::length(bytes, at)?;
        return Ok((extent.pack(), extent.end));
    }
    wire::number(bytes, at, wire)
}
