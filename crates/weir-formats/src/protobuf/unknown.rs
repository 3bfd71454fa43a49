//! Writes fields that the message type does not have, as the Java library does.

use std::ops::Range;

use super::error::WireError;
use super::field_list::{FieldEntry, each_number};
use super::schema::types::{FieldKind, MessageId};
use super::text::{Level, TextWriter};
use super::wire::{BYTES, DEPTH_MAX, FIXED32, FIXED64, GROUP_START, VARINT};
use crate::number::append_integer;
use std::fmt::Write;

impl TextWriter<'_> {
    /// Writes the unknown ones of the fields in a list: by number, then by wire type.
    pub(super) fn unknown_fields(
        &mut self,
        id: Option<MessageId>,
        fields: Range<usize>,
        level: Level,
    ) -> Result<(), WireError> {
        let mut next = fields.start;
        while next < fields.end {
            let number = self.list.get(next).number;
            let start = next;
            while next < fields.end && self.list.get(next).number == number {
                next += 1;
            }
            for wire in [VARINT, FIXED32, FIXED64, BYTES, GROUP_START] {
                // Known entries come first in the list: both parts are merged by position.
                let known = self.list.known_end(start, next);
                let (mut left, mut right) = (start, known);
                while left < known || right < next {
                    let is_left = left < known
                        && (right == next
                            || self.list.get(left).extent().at < self.list.get(right).extent().at);
                    let index = if is_left { &mut left } else { &mut right };
                    let entry = self.list.get(*index);
                    *index += 1;
                    if entry.is_known {
                        self.unnamed(id, entry, wire, level)?;
                    } else if entry.wire == wire {
                        self.unknown(entry, level)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the numbers without a name of a packed list of a closed enum.
    fn unnamed(
        &mut self,
        id: Option<MessageId>,
        entry: FieldEntry,
        wire: u8,
        level: Level,
    ) -> Result<(), WireError> {
        let types = self.types;
        let field = id.and_then(|id| types.message(id).field(entry.number));
        let Some(FieldKind::Enum(values)) = field.map(|field| field.kind) else {
            return Ok(());
        };
        let values = types.enumeration(values);
        if wire != VARINT || entry.wire != BYTES || !values.is_closed {
            return Ok(());
        }
        each_number(self.bytes, entry, FieldKind::Int32, |raw| {
            if values.name(raw as i32).is_none() {
                self.number_key(entry.number, ": ", level)?;
                append_integer((raw as i32).into(), self.out);
                self.out.push('\n');
            }
            Ok(())
        })
    }

    fn unknown(&mut self, entry: FieldEntry, level: Level) -> Result<(), WireError> {
        let number = entry.number;
        match entry.wire {
            GROUP_START => {
                let kept = self.list.len();
                self.number_key(number, " {\n", level)?;
                self.list.push(entry);
                let inner = level.inner(entry.extent().at)?;
                let fields =
                    self.list
                        .expand(self.types, None, self.bytes, kept..kept + 1, inner.depth)?;
                self.unknown_fields(None, fields, inner)?;
                self.list.truncate(kept);
                self.close(level);
                return Ok(());
            }
            BYTES => {
                self.number_key(number, ": ", level)?;
                self.unknown_bytes(entry, level)?;
            }
            wire => {
                self.number_key(number, ": ", level)?;
                let kind = match wire {
                    FIXED32 => FieldKind::Fixed32,
                    FIXED64 => FieldKind::Fixed64,
                    _ => FieldKind::Uint64,
                };
                let out = &mut *self.out;
                each_number(self.bytes, entry, kind, |raw| {
                    // Writing to a string cannot fail.
                    let _ = match kind {
                        FieldKind::Fixed32 => write!(out, "0x{raw:08x}"),
                        FieldKind::Fixed64 => write!(out, "0x{raw:016x}"),
                        _ => write!(out, "{raw}"),
                    };
                    Ok(())
                })?;
            }
        }
        self.out.push('\n');
        Ok(())
    }

    /// Writes bytes as a message if they can be one, otherwise in quotes.
    fn unknown_bytes(&mut self, entry: FieldEntry, level: Level) -> Result<(), WireError> {
        let extent = entry.extent();
        let kept = self.list.len();
        self.list.push(entry);
        let inner = Level {
            indent: level.indent + 1,
            depth: level.depth + 1,
        };
        // The limit of nesting also limits how often bytes are tried as messages.
        let fields = match inner.depth <= DEPTH_MAX {
            // As in the library, groups inside may be nested as if this were the outermost message.
            true => self
                .list
                .expand(self.types, None, self.bytes, kept..kept + 1, 0)
                .ok(),
            false => None,
        };
        match fields {
            Some(fields) => {
                self.out.push_str("{\n");
                self.unknown_fields(None, fields, inner)?;
                self.out.extend(std::iter::repeat_n("  ", level.indent));
                self.out.push('}');
            }
            None => {
                let bytes = self.bytes;
                self.quoted(&bytes[extent.at..extent.end]);
            }
        }
        self.list.truncate(kept);
        Ok(())
    }

    fn number_key(&mut self, number: u32, mark: &str, level: Level) -> Result<(), WireError> {
        self.indent(level)?;
        append_integer(number.into(), self.out);
        self.out.push_str(mark);
        Ok(())
    }
}
