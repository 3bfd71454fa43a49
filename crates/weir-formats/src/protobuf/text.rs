//! Writes messages, lists and maps in Protobuf's text format, as the Java library does.
//!
//! The layout is that of `TextFormat.printer()` 4.29 for dynamic messages: one field per line, two
//! blanks per level, fields by number, extensions and other unknown fields by number after them.
//! Map entries are in reverse order; that is what the library's comparison does with them.

use std::ops::Range;

use super::error::{ProtobufFault, WireError};
use super::field_list::{FieldEntry, FieldList, each_number, enter};
use super::scalar::append_number;
use super::schema::types::{Field, FieldKind, MessageId, Types};
use crate::number::append_integer;
use crate::utf8::append_text;

/// Limit of one text. Nesting and packed lists can make it much larger than the message.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Writer of texts.
pub(super) struct TextWriter<'a> {
    pub(super) types: &'a Types,
    pub(super) bytes: &'a [u8],
    pub(super) list: &'a mut FieldList,
    pub(super) out: &'a mut String,
    /// Length of `out` before the text.
    pub(super) start: usize,
    /// Message and number of the field with an error.
    pub(super) place: Option<(MessageId, u32)>,
}

/// Nesting of a message: in its text, and in the bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    pub(super) indent: usize,
    pub(super) depth: usize,
}

impl Level {
    /// Returns the level of the fields of a message inside.
    pub(super) fn inner(self, at: usize) -> Result<Self, WireError> {
        Ok(Self {
            indent: self.indent + 1,
            depth: enter(self.depth, at)?,
        })
    }
}

impl TextWriter<'_> {
    /// Writes the fields of the message whose parts are `chunks`.
    pub(super) fn message(
        &mut self,
        id: MessageId,
        chunks: Range<usize>,
        level: Level,
    ) -> Result<(), WireError> {
        let result = self.fields(id, chunks, level);
        result.inspect_err(|_| {
            self.place.get_or_insert((id, 0));
        })
    }

    fn fields(
        &mut self,
        id: MessageId,
        chunks: Range<usize>,
        level: Level,
    ) -> Result<(), WireError> {
        let types = self.types;
        let kept = self.list.len();
        let fields = self
            .list
            .expand(types, Some(id), self.bytes, chunks, level.depth)?;
        let mut next = fields.start;
        while next < fields.end {
            let run = self.run(next, fields.end);
            next = run.end;
            let first = self.list.get(run.start);
            if let Some(field) = types.message(id).field(first.number) {
                let known = self.known(&run);
                let written = self.field(field, known, level);
                written.inspect_err(|_| {
                    self.place.get_or_insert((id, field.number));
                })?;
            }
        }
        self.unknown_fields(Some(id), fields, level)?;
        self.list.truncate(kept);
        Ok(())
    }

    /// Returns the entries from `start` on that have the same number.
    fn run(&self, start: usize, end: usize) -> Range<usize> {
        let number = self.list.get(start).number;
        let differs = |index: &usize| self.list.get(*index).number != number;
        start..(start..end).find(differs).unwrap_or(end)
    }

    /// Returns the known entries of a run, which come first.
    fn known(&self, run: &Range<usize>) -> Range<usize> {
        let end = self.list.known_end(run.start, run.end);
        run.start..end
    }

    /// Writes a field with the entries `known` in the list.
    pub(super) fn field(
        &mut self,
        field: &Field,
        known: Range<usize>,
        level: Level,
    ) -> Result<(), WireError> {
        if known.is_empty() {
            return Ok(());
        }
        match field.kind {
            FieldKind::Map(entry) => {
                for index in known.rev() {
                    self.map_entry(field, entry, index, level)?;
                }
            }
            FieldKind::Message(_) | FieldKind::Group(_) if !field.is_repeated => {
                self.nested(field, known, level)?;
            }
            FieldKind::Message(_) | FieldKind::Group(_) => {
                for index in known {
                    self.nested(field, index..index + 1, level)?;
                }
            }
            _ if field.is_repeated => {
                for index in known {
                    self.element(field, self.list.get(index), level)?;
                }
            }
            _ => {
                let last = self.list.get(known.end - 1);
                if field.has_presence || !self.is_default(field, last) {
                    self.element(field, last, level)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the message whose parts are `chunks` in braces.
    fn nested(
        &mut self,
        field: &Field,
        chunks: Range<usize>,
        level: Level,
    ) -> Result<(), WireError> {
        let (FieldKind::Message(id) | FieldKind::Group(id)) = field.kind else {
            return Ok(());
        };
        let inner = level.inner(self.list.get(chunks.start).extent().at)?;
        self.open(self.name(field), level)?;
        self.message(id, chunks, inner)?;
        self.close(level);
        Ok(())
    }

    /// Returns the name of a field in texts. A group has the name of its message.
    fn name<'f>(&self, field: &'f Field) -> &'f str
    where
        Self: 'f,
    {
        let FieldKind::Group(id) = field.kind else {
            return &field.name;
        };
        let full = &self.types.message(id).name;
        let short = full.rsplit_once('.').map_or(&**full, |(_, short)| short);
        match short.eq_ignore_ascii_case(&field.name) {
            true => short,
            false => &field.name,
        }
    }

    /// Writes an entry of a map. Its key and value are written even if they are not set.
    fn map_entry(
        &mut self,
        field: &Field,
        entry: MessageId,
        index: usize,
        level: Level,
    ) -> Result<(), WireError> {
        let inner = level.inner(self.list.get(index).extent().at)?;
        self.open(&field.name, level)?;
        let written = self.map_fields(entry, index, inner);
        written.inspect_err(|_| {
            self.place.get_or_insert((entry, 0));
        })?;
        self.close(level);
        Ok(())
    }

    /// Writes the key and value of a map entry.
    pub(super) fn map_fields(
        &mut self,
        entry: MessageId,
        index: usize,
        level: Level,
    ) -> Result<(), WireError> {
        let types = self.types;
        let kept = self.list.len();
        let chunk = index..index + 1;
        let fields = self
            .list
            .expand(types, Some(entry), self.bytes, chunk, level.depth)?;
        for field in &types.message(entry).fields {
            let start = self.list.lower_bound(&fields, field.number);
            let mut known = start..start;
            if start < fields.end && self.list.get(start).number == field.number {
                known = self.known(&self.run(start, fields.end));
            }
            match (known.is_empty(), field.kind) {
                (true, FieldKind::Message(_)) => {
                    self.open(&field.name, level)?;
                    self.close(level);
                }
                (true, kind) => {
                    self.key(&field.name, level)?;
                    if matches!(kind, FieldKind::String | FieldKind::Bytes) {
                        self.quoted(&[]);
                    } else {
                        self.out.push_str(&field.default);
                    }
                    self.out.push('\n');
                }
                (false, FieldKind::Message(_)) => self.nested(field, known, level)?,
                (false, _) => {
                    let last = self.list.get(known.end - 1);
                    self.element(field, last, level)?;
                }
            }
        }
        self.unknown_fields(Some(entry), fields, level)?;
        self.list.truncate(kept);
        Ok(())
    }

    /// Writes the values of an entry, of which a packed one has several.
    fn element(&mut self, field: &Field, entry: FieldEntry, level: Level) -> Result<(), WireError> {
        let extent = entry.extent();
        let bytes = self.bytes;
        match field.kind {
            FieldKind::String | FieldKind::Bytes => {
                self.key(&field.name, level)?;
                let content = &bytes[extent.at..extent.end];
                match std::str::from_utf8(content) {
                    Err(_) if field.kind == FieldKind::String => {
                        if field.checks_encoding {
                            return Err(ProtobufFault::Encoding.at(extent.at));
                        }
                        let mut text = String::new();
                        append_text(content, &mut text);
                        self.quoted(text.as_bytes());
                    }
                    _ => self.quoted(content),
                }
                self.out.push('\n');
                Ok(())
            }
            kind => each_number(bytes, entry, kind, |raw| {
                if let FieldKind::Enum(id) = kind {
                    let values = self.types.enumeration(id);
                    if values.name(raw as i32).is_none() {
                        if values.is_closed {
                            return Ok(());
                        }
                        self.key(&field.name, level)?;
                        append_integer((raw as i32).into(), self.out);
                        self.out.push('\n');
                        return Ok(());
                    }
                }
                self.key(&field.name, level)?;
                append_number(kind, raw, &self.types.enums, self.out);
                self.out.push('\n');
                Ok(())
            }),
        }
    }

    /// Returns `true` if a value without presence equals the default of its type.
    fn is_default(&self, field: &Field, entry: FieldEntry) -> bool {
        let extent = entry.extent();
        if matches!(field.kind, FieldKind::String | FieldKind::Bytes) {
            return extent.at == extent.end;
        }
        let number = super::wire::number(self.bytes, extent.at, field.kind.wire());
        number.is_ok_and(|(raw, _)| match field.kind {
            FieldKind::Double => raw == 0,
            FieldKind::Uint64 | FieldKind::Fixed64 | FieldKind::Bool => raw == 0,
            FieldKind::Enum(_) => {
                let mut text = String::new();
                append_number(field.kind, raw, &self.types.enums, &mut text);
                *text == *field.default
            }
            kind => super::scalar::signed(kind, raw) == 0,
        })
    }

    /// Writes the start of a line up to the value.
    pub(super) fn key(&mut self, name: &str, level: Level) -> Result<(), WireError> {
        self.indent(level)?;
        self.out.push_str(name);
        self.out.push_str(": ");
        Ok(())
    }

    pub(super) fn open(&mut self, name: &str, level: Level) -> Result<(), WireError> {
        self.indent(level)?;
        self.out.push_str(name);
        self.out.push_str(" {\n");
        Ok(())
    }

    pub(super) fn close(&mut self, level: Level) {
        self.out.extend(std::iter::repeat_n("  ", level.indent));
        self.out.push_str("}\n");
    }

    pub(super) fn indent(&mut self, level: Level) -> Result<(), WireError> {
        if self.out.len() - self.start > TEXT_BYTES_MAX {
            return Err(ProtobufFault::TextSize.at(self.bytes.len()));
        }
        self.out.extend(std::iter::repeat_n("  ", level.indent));
        Ok(())
    }

    /// Writes bytes in quotes, with escape sequences for all that is not printable ASCII.
    pub(super) fn quoted(&mut self, bytes: &[u8]) {
        let out = &mut *self.out;
        out.push('"');
        for &byte in bytes {
            match byte {
                7 => out.push_str("\\a"),
                8 => out.push_str("\\b"),
                12 => out.push_str("\\f"),
                b'\n' => out.push_str("\\n"),
                b'\r' => out.push_str("\\r"),
                b'\t' => out.push_str("\\t"),
                11 => out.push_str("\\v"),
                b'\\' => out.push_str("\\\\"),
                b'\'' => out.push_str("\\'"),
                b'"' => out.push_str("\\\""),
                b' '..=b'~' => out.push(char::from(byte)),
                _ => {
                    out.push('\\');
                    for shift in [6, 3, 0] {
                        out.push(char::from(b'0' + (byte >> shift & 7)));
                    }
                }
            }
        }
        out.push('"');
    }
}
