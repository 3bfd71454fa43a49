//! Reads all members of an object, or all elements of an array, for dynamic fields.

use std::fmt::Write as _;

use super::decimal::NumberForm;
use super::document::append_compact;
use super::error::{JsonError, JsonFault};
use super::path_tree::NodeId;
use super::reader::{Container, JsonReader, Missing, next};
use super::scalar::{append_number, append_string, name, number, word};
use super::skip::{self, NextElement, end_of};
use crate::selector_value::SelectorValue;

/// Receives the name and value of a member; the text of a null is empty.
pub type MemberSink<'a> = dyn FnMut(&str, SelectorValue, &str) + 'a;

impl JsonReader {
    /// Passes each member of the object or array found at `node` to `emit`; `bytes` must be the
    /// last document read. Elements are named `array_name[INDEX]`; objects and arrays are written
    /// as compact JSON. Scalars and null have no members.
    ///
    /// Of a repeated member, all are passed in the order of the document.
    pub fn members(
        &mut self,
        node: NodeId,
        bytes: &[u8],
        array_name: &str,
        emit: &mut MemberSink<'_>,
    ) -> Result<(), Missing> {
        let Some(container) = self.container(node)? else {
            return Ok(());
        };
        let mut walk = MemberWalk {
            bytes,
            depth: container.depth + 1,
            numbers: self.numbers(),
            name: std::mem::take(&mut self.name),
            text: std::mem::take(&mut self.text),
        };
        let read = match container.is_object {
            true => walk.object(container, emit),
            false => walk.array(container, array_name, emit),
        };
        (self.name, self.text) = (walk.name, walk.text);
        Ok(read?)
    }
}

struct MemberWalk<'a> {
    bytes: &'a [u8],
    /// Number of objects and arrays around a member.
    depth: usize,
    numbers: NumberForm,
    name: String,
    text: String,
}

impl MemberWalk<'_> {
    fn object(&mut self, of: Container, emit: &mut MemberSink<'_>) -> Result<(), JsonError> {
        let bytes = self.bytes;
        let mut at = skip::white_space(bytes, of.at + 1);
        if bytes.get(at) == Some(&b'}') {
            return Ok(());
        }
        loop {
            let (end, value) = name(bytes, at)?;
            self.name.clear();
            append_string(bytes, at + 1, end, &mut self.name)?;
            let (kind, end) = self.value(value)?;
            emit(&self.name, kind, &self.text);
            match next(bytes, end, b'}', JsonFault::MemberEnd)? {
                NextElement::Part(part) => at = part,
                NextElement::End(_) => return Ok(()),
            }
        }
    }

    fn array(
        &mut self,
        of: Container,
        array_name: &str,
        emit: &mut MemberSink<'_>,
    ) -> Result<(), JsonError> {
        let bytes = self.bytes;
        let mut at = skip::white_space(bytes, of.at + 1);
        if bytes.get(at) == Some(&b']') {
            return Ok(());
        }
        self.name.clear();
        self.name.push_str(array_name);
        for index in 0_u64.. {
            self.name.truncate(array_name.len());
            // Writing to a String cannot fail.
            let _ = write!(self.name, "[{index}]");
            let (kind, end) = self.value(at)?;
            emit(&self.name, kind, &self.text);
            match next(bytes, end, b']', JsonFault::ElementEnd)? {
                NextElement::Part(part) => at = part,
                NextElement::End(_) => break,
            }
        }
        Ok(())
    }

    /// Writes the value at `at` to the text buffer, and returns its end.
    fn value(&mut self, at: usize) -> Result<(SelectorValue, usize), JsonError> {
        let (bytes, out) = (self.bytes, &mut self.text);
        out.clear();
        let end = match bytes.get(at) {
            Some(b'"') => {
                let end = skip::string(bytes, at + 1)?;
                append_string(bytes, at + 1, end, out)?;
                end.quote + 1
            }
            Some(b'{' | b'[') => {
                append_compact(bytes, at, self.depth, self.numbers, out)?;
                skip::container(bytes, at + 1)?
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = number(bytes, at)?;
                let end = number.end;
                append_number(bytes, at, number, self.numbers, out);
                end
            }
            Some(b'n') => return Ok((SelectorValue::Null, word(bytes, at, "null")?)),
            Some(&byte @ (b't' | b'f')) => {
                let text = if byte == b't' { "true" } else { "false" };
                out.push_str(text);
                word(bytes, at, text)?
            }
            Some(_) => return Err(JsonFault::Value.at(at)),
            None => return Err(end_of(bytes)),
        };
        Ok((SelectorValue::Text, end))
    }
}
