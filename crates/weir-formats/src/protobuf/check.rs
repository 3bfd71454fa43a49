//! Checks a whole message against its type, for the strict mode.

use std::ops::Range;

use super::error::{ProtobufFault, WireError};
use super::field_list::{FieldEntry, FieldList, each_number, enter};
use super::schema::types::{Field, FieldKind, MessageId, Types};
use super::wire::{BYTES, Extent};

/// An error with the message and number of its field.
type Located = ((MessageId, u32), WireError);

/// Checks lengths, packed lists, UTF-8, nesting and required fields as the Java library does when
/// it reads a message.
pub(super) fn check(
    types: &Types,
    id: MessageId,
    bytes: &[u8],
    list: &mut FieldList,
) -> Result<(), Located> {
    let extent = Extent {
        at: 0,
        end: bytes.len(),
    };
    list.push(FieldEntry::new(1, BYTES, extent));
    let mut check = Check { types, bytes, list };
    check.message(id, 0..1, 0)
}

struct Check<'a> {
    types: &'a Types,
    bytes: &'a [u8],
    list: &'a mut FieldList,
}

impl Check<'_> {
    /// Checks the message whose parts are `chunks`.
    fn message(
        &mut self,
        id: MessageId,
        chunks: Range<usize>,
        depth: usize,
    ) -> Result<(), Located> {
        let types = self.types;
        let message = types.message(id);
        let kept = self.list.len();
        let at = match chunks.is_empty() {
            true => 0,
            false => self.list.get(chunks.start).extent().at,
        };
        let fields = self.list.expand(types, Some(id), self.bytes, chunks, depth);
        let fields = fields.map_err(|error| ((id, 0), error))?;
        let mut start = fields.start;
        while start < fields.end {
            let first = self.list.get(start);
            let mut end = start + 1;
            while end < fields.end && self.list.get(end).number == first.number {
                end += 1;
            }
            let known = self.list.known_end(start, end);
            if let Some(field) = message.field(first.number) {
                self.field(id, field, start..known, depth)?;
            }
            start = end;
        }
        if message.has_required {
            for field in message.fields.iter().filter(|field| field.is_required) {
                let found = self.list.lower_bound(&fields, field.number);
                let is_set = found < fields.end
                    && self.list.get(found).number == field.number
                    && self.list.get(found).is_known;
                if !is_set {
                    return Err(((id, field.number), ProtobufFault::Required.at(at)));
                }
            }
        }
        self.list.truncate(kept);
        Ok(())
    }

    /// Checks the known entries of a field.
    fn field(
        &mut self,
        id: MessageId,
        field: &Field,
        known: Range<usize>,
        depth: usize,
    ) -> Result<(), Located> {
        let located = |error| ((id, field.number), error);
        match field.kind {
            FieldKind::Message(inner) | FieldKind::Group(inner) | FieldKind::Map(inner) => {
                if known.is_empty() {
                    return Ok(());
                }
                let at = self.list.get(known.start).extent().at;
                let depth = enter(depth, at).map_err(located)?;
                if field.is_repeated {
                    for index in known {
                        self.message(inner, index..index + 1, depth)?;
                    }
                    return Ok(());
                }
                self.message(inner, known, depth)
            }
            FieldKind::String if field.checks_encoding => {
                for index in known {
                    let extent = self.list.get(index).extent();
                    let text = std::str::from_utf8(&self.bytes[extent.at..extent.end]);
                    if let Err(error) = text {
                        let at = extent.at + error.valid_up_to();
                        return Err(located(ProtobufFault::Encoding.at(at)));
                    }
                }
                Ok(())
            }
            FieldKind::String | FieldKind::Bytes => Ok(()),
            kind => {
                for index in known {
                    let entry = self.list.get(index);
                    each_number(self.bytes, entry, kind, |_| Ok(())).map_err(located)?;
                }
                Ok(())
            }
        }
    }
}
