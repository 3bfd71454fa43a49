//! Reads all fields of a message, elements of a list or entries of a map, for dynamic fields.

use std::fmt::Write as _;
use std::ops::Range;

use super::error::{Missing, ProtobufFault, WireError};
use super::field_list::each_number;
use super::member_buffers::MemberBuffers;
use super::plan::ValuePlan;
use super::reader::{ProtobufReader, located, push_spans};
use super::scalar::append_number;
use super::schema::types::{Field, FieldKind, MessageId};
use super::text::{Level, TextWriter};
use crate::json::NodeId;
use crate::selector_value::SelectorValue;
use crate::utf8::append_text;

/// Receives the name and text of a member.
type Sink<'a> = dyn FnMut(&str, SelectorValue, &str) + 'a;

impl ProtobufReader {
    /// Passes each member of the message, list or map at `node` to `emit`; `bytes` must be the last
    /// document read. Elements are named `array_name[INDEX]`; messages are in text format and
    /// lists in brackets. Scalars have no members.
    pub fn members(
        &mut self,
        node: NodeId,
        bytes: &[u8],
        array_name: &str,
        emit: &mut Sink<'_>,
    ) -> Result<(), Missing> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let outcome = self.members_with(&mut buffers, node, bytes, array_name, emit);
        self.buffers = buffers;
        outcome
    }

    fn members_with(
        &mut self,
        MemberBuffers { text, other }: &mut MemberBuffers,
        node: NodeId,
        bytes: &[u8],
        array_name: &str,
        emit: &mut Sink<'_>,
    ) -> Result<(), Missing> {
        let Some((compiled, document, spans, list)) = self.parts_mut() else {
            return Ok(());
        };
        let is_set = compiled.find(node, document)?;
        let types = &*compiled.message.types;
        let depth = compiled.depth(node);
        list.reset();
        let value = &compiled.plan.nodes[node as usize].value;
        let number = match value {
            ValuePlan::List(field, _) | ValuePlan::Map(field, _) => field.of(types).number,
            _ => 1,
        };
        if is_set {
            push_spans(
                spans,
                compiled.states[node as usize].first_span,
                number,
                list,
            );
        }
        let chunks = 0..list.len();
        let mut writer = TextWriter {
            types,
            bytes,
            list,
            out: text,
            start: 0,
            place: None,
        };
        let level = Level { indent: 0, depth };
        let (place, read) = match value {
            ValuePlan::Message(id, _) => {
                let read = writer.message_members(*id, chunks, level, other, emit);
                ((*id, 0), read)
            }
            ValuePlan::List(field, _) | ValuePlan::Map(field, _) => {
                let schema_field = field.of(types);
                let place = (field.message, schema_field.number);
                let level = Level {
                    indent: 0,
                    depth: depth.saturating_sub(1),
                };
                let read = match schema_field.kind {
                    FieldKind::Map(entry) => writer.map_members(entry, chunks, level, other, emit),
                    _ => {
                        let names = (array_name, other);
                        writer.list_members(schema_field, chunks, level, names, emit)
                    }
                };
                (place, read)
            }
            ValuePlan::Scalar(_) | ValuePlan::Nothing => return Ok(()),
        };
        let place = writer.place.unwrap_or(place);
        read.map_err(|error| located(types, place, error).into())
    }
}

impl TextWriter<'_> {
    /// Passes all fields in the order of their declaration, with defaults if they are not set.
    fn message_members(
        &mut self,
        id: MessageId,
        chunks: Range<usize>,
        level: Level,
        joined: &mut String,
        emit: &mut Sink<'_>,
    ) -> Result<(), WireError> {
        let types = self.types;
        let message = types.message(id);
        let fields = self
            .list
            .expand(types, Some(id), self.bytes, chunks, level.depth)?;
        for index in &message.declared {
            let field = &message.fields[*index as usize];
            let known = self.known_entries(&fields, field.number);
            let written = self.member(field, known, level, joined);
            written.inspect_err(|_| {
                self.place.get_or_insert((id, field.number));
            })?;
            emit(&field.name, SelectorValue::Text, self.out);
        }
        Ok(())
    }

    /// Writes the text of a field without its name.
    fn member(
        &mut self,
        field: &Field,
        known: Range<usize>,
        level: Level,
        joined: &mut String,
    ) -> Result<(), WireError> {
        if !field.is_repeated {
            return self.single(field, known, level);
        }
        // As `toString` of a Java list.
        joined.clear();
        joined.push('[');
        let mut separator = "";
        for index in known {
            self.each_plain(field, index, level, &mut |text| {
                joined.push_str(separator);
                joined.push_str(text);
                separator = ", ";
            })?;
        }
        self.out.clear();
        self.out.push_str(joined);
        self.out.push(']');
        Ok(())
    }

    /// Writes the text of a field that is not a list.
    fn single(
        &mut self,
        field: &Field,
        known: Range<usize>,
        level: Level,
    ) -> Result<(), WireError> {
        self.out.clear();
        if known.is_empty() {
            self.out.push_str(&field.default);
            return Ok(());
        }
        self.plain(field, known, level)
    }

    fn list_members(
        &mut self,
        field: &Field,
        chunks: Range<usize>,
        level: Level,
        (array_name, name): (&str, &mut String),
        emit: &mut Sink<'_>,
    ) -> Result<(), WireError> {
        name.clear();
        name.push_str(array_name);
        let mut count = 0_usize;
        for index in chunks {
            self.each_plain(field, index, level, &mut |text| {
                name.truncate(array_name.len());
                // Writing to a String cannot fail.
                let _ = write!(name, "[{count}]");
                emit(name, SelectorValue::Text, text);
                count += 1;
            })?;
        }
        Ok(())
    }

    /// Passes the entries of a map, with the texts of their keys as names. Of a repeated key, all
    /// are passed in the order of the message.
    fn map_members(
        &mut self,
        entry: MessageId,
        chunks: Range<usize>,
        level: Level,
        name: &mut String,
        emit: &mut Sink<'_>,
    ) -> Result<(), WireError> {
        let types = self.types;
        let [key, value] = &*types.message(entry).fields else {
            return Ok(());
        };
        for index in chunks {
            let kept = self.list.len();
            let inner = level.inner(self.list.get(index).extent().at)?;
            let chunk = index..index + 1;
            let fields = self
                .list
                .expand(types, Some(entry), self.bytes, chunk, inner.depth)?;
            let known = self.known_entries(&fields, key.number);
            self.map_key(key, known, level)?;
            name.clear();
            name.push_str(self.out);
            let known = self.known_entries(&fields, value.number);
            self.single(value, known, inner)?;
            emit(name, SelectorValue::Text, self.out);
            self.list.truncate(kept);
        }
        Ok(())
    }

    /// Writes a key as Java does, which has no unsigned integers.
    fn map_key(&mut self, key: &Field, known: Range<usize>, level: Level) -> Result<(), WireError> {
        self.out.clear();
        let signed = match key.kind {
            FieldKind::Uint32 | FieldKind::Fixed32 => FieldKind::Int32,
            FieldKind::Uint64 | FieldKind::Fixed64 => FieldKind::Int64,
            _ => return self.single(key, known, level),
        };
        let mut number = 0;
        if let Some(last) = known.last() {
            let entry = self.list.get(last);
            each_number(self.bytes, entry, key.kind, |raw| {
                number = raw;
                Ok(())
            })?;
        }
        append_number(signed, number, &[], self.out);
        Ok(())
    }

    /// Returns the known entries of a field in a list.
    fn known_entries(&self, fields: &Range<usize>, number: u32) -> Range<usize> {
        let start = self.list.lower_bound(fields, number);
        let mut end = start;
        while end < fields.end {
            let entry = self.list.get(end);
            if entry.number != number || !entry.is_known {
                break;
            }
            end += 1;
        }
        start..end
    }

    /// Writes a value that is set, without its name and without quotes.
    fn plain(&mut self, field: &Field, known: Range<usize>, level: Level) -> Result<(), WireError> {
        match field.kind {
            FieldKind::Message(id) | FieldKind::Group(id) => {
                let inner = level.inner(self.list.get(known.start).extent().at)?;
                let level = Level { indent: 0, ..inner };
                self.message(id, known, level)
            }
            _ => {
                let last = known.end - 1;
                self.each_plain(field, last, level, &mut |_| {})
            }
        }
    }

    /// Writes each value of an entry, one after the other, and passes its text.
    fn each_plain(
        &mut self,
        field: &Field,
        index: usize,
        level: Level,
        found: &mut dyn FnMut(&str),
    ) -> Result<(), WireError> {
        self.out.clear();
        let entry = self.list.get(index);
        let extent = entry.extent();
        match field.kind {
            FieldKind::Message(_) | FieldKind::Group(_) => {
                self.plain(field, index..index + 1, level)?
            }
            FieldKind::Map(entry) => {
                let inner = level.inner(extent.at)?;
                self.map_fields(entry, index, Level { indent: 0, ..inner })?;
            }
            FieldKind::String | FieldKind::Bytes => {
                let content = &self.bytes[extent.at..extent.end];
                let is_text = std::str::from_utf8(content).is_ok();
                if !is_text && field.kind == FieldKind::String && field.checks_encoding {
                    return Err(ProtobufFault::Encoding.at(extent.at));
                }
                append_text(content, self.out);
            }
            kind => {
                return each_number(self.bytes, entry, kind, |raw| {
                    if let FieldKind::Enum(id) = kind {
                        let values = self.types.enumeration(id);
                        if values.is_closed && values.name(raw as i32).is_none() {
                            return Ok(());
                        }
                    }
                    self.out.clear();
                    append_number(kind, raw, &self.types.enums, self.out);
                    found(self.out);
                    Ok(())
                });
            }
        }
        found(self.out);
        Ok(())
    }
}
