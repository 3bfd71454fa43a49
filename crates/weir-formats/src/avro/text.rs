//! Texts of values, as the Lightstreamer Kafka Connector prints the objects of Avro's Java library.

use super::cursor::{Blocks, Cursor};
use super::error::{AvroErrorKind, LocatedError};
use super::schema::{AvroSchema, Span, TypeId, TypeKind};
use super::skip::{deeper, map_blocks};
use crate::number::{append_double, append_float, append_integer};
use crate::utf8::append_text;

/// Maximum length of a text. Field names and symbols can make it far longer than the record.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Form in which a value is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    /// As the Java object itself: text without quotes, `[a, b]`, `{k=v}`.
    Plain,
    /// As the Java library prints it inside a record, similar to JSON.
    Quoted,
}

/// Writer of the text of one value.
pub(super) struct TextWriter<'a> {
    schema: &'a AvroSchema,
    cursor: Cursor<'a>,
    out: &'a mut String,
    /// Maximum length of `out`.
    out_max: usize,
}

impl<'a> TextWriter<'a> {
    /// Creates a writer for the value at the position of `cursor`.
    pub(super) fn new(schema: &'a AvroSchema, cursor: Cursor<'a>, out: &'a mut String) -> Self {
        let out_max = out.len().saturating_add(TEXT_BYTES_MAX);
        Self {
            schema,
            cursor,
            out,
            out_max,
        }
    }

    /// Appends the text of a record, array or map that an expression selects. A map has `: `
    /// between key and value, unlike one inside another value.
    pub(super) fn append_selected(mut self, id: TypeId) -> Result<(), LocatedError> {
        match self.schema.kind(id) {
            TypeKind::Map(value) => self.map(value, ": ", 1),
            _ => self.value(id, TextForm::Plain, 0),
        }
    }

    /// Appends the text of a member of a selected value. Returns the position after the member.
    pub(super) fn append_member(mut self, id: TypeId) -> Result<usize, LocatedError> {
        self.value(id, TextForm::Plain, 0)?;
        Ok(self.cursor.at)
    }

    /// Appends the text of the next value, which is inside `depth` records, arrays and maps.
    fn value(&mut self, id: TypeId, form: TextForm, depth: usize) -> Result<(), LocatedError> {
        let quoted = form == TextForm::Quoted;
        match self.schema.kind(id) {
            TypeKind::Null => self.out.push_str("null"),
            TypeKind::Boolean => self.out.push_str(match self.cursor.boolean()? {
                true => "true",
                false => "false",
            }),
            TypeKind::Int => append_integer(self.cursor.int()?.into(), self.out),
            TypeKind::Long => append_integer(self.cursor.long()?, self.out),
            TypeKind::Float => {
                let number = self.cursor.float()?;
                let quote = quote(quoted && !number.is_finite());
                self.out.push_str(quote);
                append_float(number, self.out);
                self.out.push_str(quote);
            }
            TypeKind::Double => {
                let number = self.cursor.double()?;
                let quote = quote(quoted && !number.is_finite());
                self.out.push_str(quote);
                append_double(number, self.out);
                self.out.push_str(quote);
            }
            TypeKind::Bytes => append_bytes(self.cursor.bytes()?, form, self.out),
            TypeKind::String => append_string(self.cursor.bytes()?, form, self.out),
            TypeKind::Fixed(size) => append_fixed(self.cursor.take(size.into())?, self.out),
            TypeKind::Enum(symbols) => {
                let index = self.cursor.symbol(symbols.len)? as usize;
                let symbol = &self.schema.symbols(symbols)[index];
                append_string(symbol.as_bytes(), form, self.out);
            }
            TypeKind::Union(branches) => {
                let index = self.cursor.branch(branches.len)? as usize;
                self.value(self.schema.branches(branches)[index], form, depth)?;
            }
            TypeKind::Record(fields) => self.record(fields, deeper(depth, &self.cursor)?)?,
            TypeKind::Array(item) => self.array(item, form, deeper(depth, &self.cursor)?)?,
            TypeKind::Map(value) if quoted => {
                self.quoted_map(value, deeper(depth, &self.cursor)?)?;
            }
            TypeKind::Map(value) => self.map(value, "=", deeper(depth, &self.cursor)?)?,
        }
        match self.out.len() > self.out_max {
            true => Err(AvroErrorKind::Text(TEXT_BYTES_MAX).at(self.cursor.at)),
            false => Ok(()),
        }
    }

    fn record(&mut self, fields: Span, depth: usize) -> Result<(), LocatedError> {
        let mut separator = "{";
        for field in self.schema.fields(fields) {
            self.out.push_str(separator);
            append_string(field.name.as_bytes(), TextForm::Quoted, self.out);
            self.out.push_str(": ");
            self.value(field.id, TextForm::Quoted, depth)?;
            separator = ", ";
        }
        self.close(separator, "{", '}');
        Ok(())
    }

    fn array(&mut self, item: TypeId, form: TextForm, depth: usize) -> Result<(), LocatedError> {
        let mut blocks = Blocks::new(self.schema.get(item).size.min);
        let mut separator = "[";
        while let Some(block) = blocks.next(&mut self.cursor)? {
            for _ in 0..block.count {
                self.out.push_str(separator);
                self.value(item, form, depth)?;
                separator = ", ";
            }
            block.check_end(&self.cursor)?;
        }
        self.close(separator, "[", ']');
        Ok(())
    }

    /// Appends a map as Java prints it, with `equals` between key and value.
    fn map(&mut self, value: TypeId, equals: &str, depth: usize) -> Result<(), LocatedError> {
        let mut blocks = map_blocks(self.schema, value);
        let mut separator = "{";
        while let Some(block) = blocks.next(&mut self.cursor)? {
            for _ in 0..block.count {
                self.out.push_str(separator);
                append_text(self.cursor.bytes()?, self.out);
                self.out.push_str(equals);
                self.value(value, TextForm::Plain, depth)?;
                separator = ", ";
            }
            block.check_end(&self.cursor)?;
        }
        self.close(separator, "{", '}');
        Ok(())
    }

    /// Appends a map as it is printed inside a record.
    fn quoted_map(&mut self, value: TypeId, depth: usize) -> Result<(), LocatedError> {
        let mut blocks = map_blocks(self.schema, value);
        let mut separator = "{";
        while let Some(block) = blocks.next(&mut self.cursor)? {
            for _ in 0..block.count {
                self.out.push_str(separator);
                append_string(self.cursor.bytes()?, TextForm::Quoted, self.out);
                self.out.push_str(": ");
                self.value(value, TextForm::Quoted, depth)?;
                separator = ", ";
            }
            block.check_end(&self.cursor)?;
        }
        self.close(separator, "{", '}');
        Ok(())
    }

    /// Appends the closing bracket. If there was no item, `separator` is still the opening bracket,
    /// which is appended first.
    fn close(&mut self, separator: &str, open: &str, close: char) {
        if separator == open {
            self.out.push_str(open);
        }
        self.out.push(close);
    }
}

fn quote(is_quoted: bool) -> &'static str {
    if is_quoted { "\"" } else { "" }
}

fn append_string(bytes: &[u8], form: TextForm, out: &mut String) {
    match (form, std::str::from_utf8(bytes)) {
        (TextForm::Plain, _) => append_text(bytes, out),
        (TextForm::Quoted, Ok(text)) => append_quoted(text.chars(), out),
        (TextForm::Quoted, Err(_)) => {
            let mut text = String::new();
            append_text(bytes, &mut text);
            append_quoted(text.chars(), out);
        }
    }
}

/// Appends bytes as characters of ISO 8859-1, as the Java library prints them inside a record. For
/// bytes outside a record, the connector prints the position and limit of the Java buffer instead
/// of the content; this is not reproduced.
pub(super) fn append_bytes(bytes: &[u8], form: TextForm, out: &mut String) {
    let chars = bytes.iter().map(|byte| char::from(*byte));
    match form {
        TextForm::Plain => out.extend(chars),
        TextForm::Quoted => append_quoted(chars, out),
    }
}

/// Appends bytes as a list of signed numbers, like Java's `Arrays.toString`.
pub(super) fn append_fixed(bytes: &[u8], out: &mut String) {
    out.push('[');
    for (i, byte) in bytes.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        append_integer(i8::from_ne_bytes([*byte]).into(), out);
    }
    out.push(']');
}

/// Appends a text in quotes, with the escapes of Avro's Java library.
fn append_quoted(chars: impl Iterator<Item = char>, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push('"');
    for c in chars {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2000}'..='\u{20ff}' => {
                let code = c as usize;
                out.push_str("\\u");
                for shift in [12, 8, 4, 0] {
                    out.push(char::from(HEX[code >> shift & 15]));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
