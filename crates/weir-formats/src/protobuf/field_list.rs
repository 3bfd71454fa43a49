//! Lists all fields of a message by number, with repeated and merged ones next to each other.
//!
//! Used where a whole message is read: for its text, its members and the strict check. The lists of
//! nested messages are a stack in one vector, so that reading allocates nothing in steady state.

use std::ops::Range;

use super::error::{ProtobufFault, WireError};
use super::schema::types::{Field, FieldKind, MessageId, Types};
use super::wire::{self, BYTES, DEPTH_MAX, Extent, GROUP_START};

/// Memory above which the vector is released after use.
const ENTRIES_KEPT_MAX: usize = 1 << 16;

/// An occurrence of a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldEntry {
    /// Number of the field; 0 if another member of the oneof replaced it.
    pub(super) number: u32,
    pub(super) wire: u8,
    /// The message type has the field, with this wire type.
    pub(super) is_known: bool,
    at: u32,
    end: u32,
}

impl FieldEntry {
    /// Creates an occurrence; a message has less than 4 GiB.
    pub(super) fn new(number: u32, wire: u8, extent: Extent) -> Self {
        Self {
            number,
            wire,
            is_known: true,
            at: extent.at as u32,
            end: extent.end as u32,
        }
    }

    /// Returns the extent of the value, without a length or the tags of a group.
    pub(super) fn extent(self) -> Extent {
        Extent {
            at: self.at as usize,
            end: self.end as usize,
        }
    }
}

/// Stack of field lists.
#[derive(Debug, Clone, Default)]
pub(super) struct FieldList {
    entries: Vec<FieldEntry>,
    oneofs: Vec<Oneof>,
}

/// Member of a oneof that is set.
#[derive(Debug, Clone, Copy, Default)]
struct Oneof {
    /// Number of the member; 0 before one was seen.
    number: u32,
    /// A different member was seen before the current run.
    is_closed: bool,
}

impl FieldList {
    /// Removes all lists, and the memory if it is large.
    pub(super) fn reset(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(ENTRIES_KEPT_MAX);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
    }

    pub(super) fn push(&mut self, entry: FieldEntry) {
        self.entries.push(entry);
    }

    pub(super) fn get(&self, index: usize) -> FieldEntry {
        self.entries[index]
    }

    /// Returns the position of the first entry of a list whose number is not less than `number`.
    pub(super) fn lower_bound(&self, fields: &Range<usize>, number: u32) -> usize {
        let entries = &self.entries[fields.clone()];
        fields.start + entries.partition_point(|entry| entry.number < number)
    }

    /// Returns the end of the known entries of a run with one number, in which they come first.
    pub(super) fn known_end(&self, start: usize, end: usize) -> usize {
        let entries = &self.entries[start..end];
        start + entries.partition_point(|entry| entry.is_known)
    }

    /// Lists the fields of the message whose parts are `chunks`, which are in the stack. Returns
    /// the new list: ordered by number, known ones first, then by position.
    pub(super) fn expand(
        &mut self,
        types: &Types,
        id: Option<MessageId>,
        bytes: &[u8],
        chunks: Range<usize>,
        depth: usize,
    ) -> Result<Range<usize>, WireError> {
        let start = self.entries.len();
        for chunk in chunks {
            let extent = self.entries[chunk].extent();
            let bytes = &bytes[..extent.end];
            let mut at = extent.at;
            while at < bytes.len() {
                at = self.push_field(types, id, bytes, at, depth)?;
            }
        }
        if let Some(id) = id {
            self.clear_oneofs(types, id, start);
        }
        let entries = &mut self.entries[start..];
        entries.sort_unstable_by_key(|e| (e.number, !e.is_known, e.at));
        let cleared = entries.partition_point(|e| e.number == 0);
        Ok(start + cleared..self.entries.len())
    }

    /// Adds the field at `at`. Returns the position after it.
    fn push_field(
        &mut self,
        types: &Types,
        id: Option<MessageId>,
        bytes: &[u8],
        at: usize,
        depth: usize,
    ) -> Result<usize, WireError> {
        let (tag, at) = wire::tag(bytes, at)?;
        let (extent, next) = match tag.wire {
            BYTES => {
                let extent = wire::length(bytes, at)?;
                (extent, extent.end)
            }
            GROUP_START => wire::group(bytes, at, tag.number, depth)?,
            _ => {
                let end = wire::skip(bytes, at, tag, depth)?;
                (Extent { at, end }, end)
            }
        };
        let field = id.and_then(|id| types.message(id).field(tag.number));
        let mut entry = FieldEntry::new(tag.number, tag.wire, extent);
        entry.is_known = field.is_some_and(|field| accepts(types, field, bytes, entry));
        self.entries.push(entry);
        Ok(next)
    }

    /// Marks the members of oneofs that a later member replaced.
    fn clear_oneofs(&mut self, types: &Types, id: MessageId, start: usize) {
        let message = types.message(id);
        if message.oneof_count == 0 {
            return;
        }
        self.oneofs.clear();
        let count = message.oneof_count as usize;
        self.oneofs.resize(count, Oneof::default());
        for entry in self.entries[start..].iter_mut().rev() {
            let field = message.field(entry.number).filter(|_| entry.is_known);
            let Some(oneof) = field.and_then(|field| field.oneof) else {
                continue;
            };
            let state = &mut self.oneofs[oneof as usize];
            if state.number == 0 {
                state.number = entry.number;
            }
            state.is_closed |= state.number != entry.number;
            if state.is_closed {
                entry.number = 0;
            }
        }
    }
}

/// Returns `true` if a field has the wire type of its schema; for a single value of a closed enum,
/// if it has a name.
fn accepts(types: &Types, field: &Field, bytes: &[u8], entry: FieldEntry) -> bool {
    if entry.wire != field.kind.wire() {
        return field.is_repeated && entry.wire == BYTES && field.kind.is_packable();
    }
    match field.kind {
        FieldKind::Enum(id) if types.enumeration(id).is_closed => {
            let number = wire::varint(bytes, entry.extent().at);
            number.is_ok_and(|(raw, _)| types.enumeration(id).name(raw as i32).is_some())
        }
        _ => true,
    }
}

/// Calls `found` with the bits of each number of an entry, of which packed ones have several.
pub(super) fn each_number(
    bytes: &[u8],
    entry: FieldEntry,
    kind: FieldKind,
    mut found: impl FnMut(u64) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let Extent { mut at, end } = entry.extent();
    let bytes = &bytes[..end];
    while at < end {
        let (raw, next) = wire::number(bytes, at, kind.wire())?;
        found(raw)?;
        at = next;
    }
    Ok(())
}

/// Returns the number of messages around a message one level deeper.
pub(super) fn enter(depth: usize, at: usize) -> Result<usize, WireError> {
    match depth < DEPTH_MAX {
        true => Ok(depth + 1),
        false => Err(ProtobufFault::Depth.at(at)),
    }
}
