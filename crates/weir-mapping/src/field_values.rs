//! Field values of one record: one text buffer, in the order of the configured fields.

use std::ops::Deref;

use crate::payload::PayloadReader;

/// Markers instead of a length; lengths of texts stay below both.
const NULL: u32 = u32::MAX;
const SKIPPED: u32 = u32::MAX - 1;

/// Maximum total length of the values of one record, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = (u32::MAX - 2) as usize;

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// Text, possibly empty.
    Text(&'a str),
    /// Null, which is sent to clients.
    Null,
    /// Absent from the update: MERGE and COMMAND clients keep the previous value.
    Skipped,
}

impl<'a> FieldValue<'a> {
    /// Returns the text, `None` for null and for a skipped field.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Skipped => None,
        }
    }
}

#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSpan {
    start: u32,
    len: u32,
}

/// Values of the fields of one record, in the order of the mapping's fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values<Text, Spans> {
    text: Text,
    spans: Spans,
}

/// Immutable, compact field values of one record, in at most two allocations.
pub type FrozenValues = Values<Box<str>, Box<[TextSpan]>>;

impl<Text: Deref<Target = str>, Spans: Deref<Target = [TextSpan]>> Values<Text, Spans> {
    /// Returns the number of fields, skipped ones included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns `true` if there are no fields, as before the first record.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the text of a field by its index in the mapping, `None` for null and skipped fields.
    pub fn get(&self, index: usize) -> Option<&str> {
        self.value(index).text()
    }

    /// Returns the value of a field by its index. Fields beyond the last count as skipped.
    pub fn value(&self, index: usize) -> FieldValue<'_> {
        match self.spans.get(index) {
            None | Some(TextSpan { len: SKIPPED, .. }) => FieldValue::Skipped,
            Some(TextSpan { len: NULL, .. }) => FieldValue::Null,
            Some(TextSpan { start, len }) => {
                FieldValue::Text(&self.text[*start as usize..*start as usize + *len as usize])
            }
        }
    }

    /// Returns all values in field order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = FieldValue<'_>> {
        (0..self.spans.len()).map(|index| self.value(index))
    }

    /// Returns a compact copy that threads can share.
    pub fn freeze(&self) -> FrozenValues {
        FrozenValues {
            text: (*self.text).into(),
            spans: (*self.spans).into(),
        }
    }
}

/// Field values that are being collected.
pub(crate) type ValueBuffer = Values<String, Vec<TextSpan>>;

impl ValueBuffer {
    /// Sets a field to the text from `start` on. Returns `false` if the texts are too long.
    fn set_text(&mut self, index: usize, start: usize) -> bool {
        if self.text.len() > TEXT_BYTES_MAX {
            return false;
        }
        // Both fit into u32 because the end of the text does.
        let (start, len) = (start as u32, (self.text.len() - start) as u32);
        self.spans[index] = TextSpan { start, len };
        true
    }

    /// Sets a field to a copy of a text. Returns `false` if the texts are too long.
    pub(crate) fn push_text(&mut self, index: usize, text: &str) -> bool {
        let start = self.text.len();
        self.text.push_str(text);
        self.set_text(index, start)
    }

    pub(crate) fn set_null(&mut self, index: usize) {
        self.spans[index] = TextSpan {
            start: 0,
            len: NULL,
        };
    }
}

/// Reusable buffer for the field values of a record; its memory is reused between records.
#[derive(Debug, Clone, Default)]
pub struct FieldValues {
    values: ValueBuffer,
    payloads: PayloadReader,
}

impl Deref for FieldValues {
    type Target = ValueBuffer;

    fn deref(&self) -> &Self::Target {
        &self.values
    }
}

impl FieldValues {
    /// Creates an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the values but not the memory.
    pub fn clear(&mut self) {
        self.values.text.clear();
        self.values.spans.clear();
    }

    /// Removes the values of the previous record and marks `count` fields as skipped.
    pub(crate) fn reset(&mut self, count: usize) {
        self.clear();
        let skipped = TextSpan {
            start: 0,
            len: SKIPPED,
        };
        self.values.spans.resize(count, skipped);
    }

    pub(crate) fn payloads_mut(&mut self) -> &mut PayloadReader {
        &mut self.payloads
    }

    /// Returns the payload reader and the buffer for the next text.
    pub(crate) fn parts_mut(&mut self) -> (&mut PayloadReader, &mut String) {
        (&mut self.payloads, &mut self.values.text)
    }

    /// Returns the payload reader and the values.
    pub(crate) fn split(&mut self) -> (&mut PayloadReader, &mut ValueBuffer) {
        (&mut self.payloads, &mut self.values)
    }

    /// Returns the current length of all texts, for [`Self::set_text`].
    pub(crate) fn text_len(&self) -> usize {
        self.values.text.len()
    }

    /// Sets a field to the text from `start` on. Returns `false` if the texts are too long.
    pub(crate) fn set_text(&mut self, index: usize, start: usize) -> bool {
        self.values.set_text(index, start)
    }

    /// Copies a value. Returns `false` if the texts are too long.
    fn set(&mut self, index: usize, value: FieldValue<'_>) -> bool {
        match value {
            FieldValue::Skipped => true,
            FieldValue::Null => {
                self.set_null(index);
                true
            }
            FieldValue::Text(text) => self.values.push_text(index, text),
        }
    }

    pub(crate) fn set_null(&mut self, index: usize) {
        self.values.set_null(index);
    }

    /// Removes the text from `start` on, which belongs to no field.
    pub(crate) fn drop_text(&mut self, start: usize) {
        self.values.text.truncate(start);
    }
}

impl FrozenValues {
    /// Returns these values with skipped fields filled from `older`, where `carries` returns `true`
    /// for the field's index. Returns `None` if no field can be filled or the texts become too
    /// long.
    pub fn filled_from(&self, older: &Self, carries: impl Fn(usize) -> bool) -> Option<Self> {
        let skipped = |values: &Self, index| matches!(values.value(index), FieldValue::Skipped);
        let carried = |index| skipped(self, index) && !skipped(older, index) && carries(index);
        let first = (0..older.len()).find(|index| carried(*index))?;
        let mut merged = FieldValues::new();
        let count = self.len().max(older.len());
        merged.reset(count);
        for index in 0..count {
            let value = match index >= first && carried(index) {
                true => older.value(index),
                false => self.value(index),
            };
            if !merged.set(index, value) {
                return None;
            }
        }
        Some(merged.freeze())
    }

    /// Returns these values with `change` applied to the first `len` fields and to all others that
    /// are present; `None` if the texts become too long.
    pub fn map<'a>(
        &'a self,
        len: usize,
        change: impl Fn(usize, FieldValue<'a>) -> FieldValue<'a>,
    ) -> Option<Self> {
        let mut changed = FieldValues::new();
        let len = len.max(self.len());
        changed.reset(len);
        for index in 0..len {
            if !changed.set(index, change(index, self.value(index))) {
                return None;
            }
        }
        Some(changed.freeze())
    }

    /// Returns the total length of all texts in bytes.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FieldValues {
        let mut values = FieldValues::new();
        values.reset(4);
        values.parts_mut().1.push_str("ab");
        assert!(values.set_text(0, 0));
        values.set_null(1);
        assert!(values.set_text(3, 2));
        values
    }

    #[test]
    fn null_skipped_and_empty_differ() {
        let values = sample();
        let expected = [
            FieldValue::Text("ab"),
            FieldValue::Null,
            FieldValue::Skipped,
            FieldValue::Text(""),
        ];
        assert_eq!(values.iter().collect::<Vec<_>>(), expected);
        assert_eq!(values.get(0), Some("ab"));
        assert_eq!(
            (values.get(1), values.get(2), values.get(9)),
            (None, None, None)
        );
        assert_eq!(values.value(9), FieldValue::Skipped);
    }

    #[test]
    fn skipped_fields_are_filled_from_older_values() {
        let frozen = |all: &[FieldValue<'_>]| {
            let mut values = FieldValues::new();
            values.reset(all.len());
            for (index, value) in all.iter().enumerate() {
                assert!(values.set(index, *value));
            }
            values.freeze()
        };
        use FieldValue::{Null, Skipped, Text};
        let older = frozen(&[Text("a"), Text("b"), Null, Text("d"), Skipped]);
        let newer = frozen(&[Text("x"), Skipped, Skipped, Skipped, Skipped]);
        let merged = newer
            .filled_from(&older, |index| index != 3)
            .expect("a change");
        assert_eq!(
            merged,
            frozen(&[Text("x"), Text("b"), Null, Skipped, Skipped])
        );
        assert_eq!(newer.filled_from(&older, |_| false), None);
        assert_eq!(older.filled_from(&newer, |_| true), None);
    }

    #[test]
    fn values_can_be_changed() {
        use FieldValue::{Skipped, Text};
        let changed = sample().freeze().map(0, |index, value| match index {
            0 => Skipped,
            1 => Text("new"),
            _ => value,
        });
        let changed = changed.expect("short texts");
        let expected = [Skipped, Text("new"), Skipped, Text("")];
        assert_eq!(changed.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn frozen_values_outlive_buffer() {
        fn shareable<T: Send + Sync>(_: &T) {}
        let mut values = sample();
        let frozen = values.freeze();
        shareable(&frozen);
        values.clear();
        assert!(values.is_empty());
        assert_eq!(frozen.len(), 4);
        assert_eq!(frozen.get(0), Some("ab"));
        assert_eq!(frozen.value(1), FieldValue::Null);
        assert_eq!(frozen.value(2), FieldValue::Skipped);
        assert_eq!(frozen.get(3), Some(""));
        assert_eq!(frozen.text_bytes(), 2);
    }
}
