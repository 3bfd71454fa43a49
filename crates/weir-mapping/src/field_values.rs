//! Field values of one record: all texts in one buffer, in the order of the configured fields.

use crate::payload::PayloadReader;

/// Marks in place of a length; texts are kept shorter than either.
const NULL: u32 = u32::MAX;
const SKIPPED: u32 = u32::MAX - 1;

/// Longest text of all values of one record together, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = (u32::MAX - 2) as usize;

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A text, possibly empty.
    Text(&'a str),
    /// Null is a value: it is sent to clients.
    Null,
    /// The field is absent from the update: MERGE and COMMAND clients keep what they have.
    Skipped,
}

impl<'a> FieldValue<'a> {
    /// The text, `None` for null and for a skipped field.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Skipped => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextSpan {
    start: u32,
    len: u32,
}

fn value<'a>(text: &'a str, spans: &[TextSpan], index: usize) -> FieldValue<'a> {
    match spans.get(index) {
        None | Some(TextSpan { len: SKIPPED, .. }) => FieldValue::Skipped,
        Some(TextSpan { len: NULL, .. }) => FieldValue::Null,
        Some(TextSpan { start, len }) => {
            FieldValue::Text(&text[*start as usize..*start as usize + *len as usize])
        }
    }
}

/// A reusable buffer for the field values of a record; it keeps its memory between records.
#[derive(Debug, Clone, Default)]
pub struct FieldValues {
    text: String,
    spans: Vec<TextSpan>,
    payloads: PayloadReader,
}

impl FieldValues {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the values and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
    }

    /// Number of fields, skipped ones included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True before the first record.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Text of a field by its index in the mapping; `None` for null and skipped fields.
    pub fn get(&self, index: usize) -> Option<&str> {
        self.value(index).text()
    }

    /// Value of a field by its index; an index beyond the fields counts as skipped.
    pub fn value(&self, index: usize) -> FieldValue<'_> {
        value(&self.text, &self.spans, index)
    }

    /// All values in field order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = FieldValue<'_>> {
        (0..self.spans.len()).map(|index| self.value(index))
    }

    /// A compact copy that can be shared between threads.
    pub fn freeze(&self) -> FrozenValues {
        FrozenValues {
            text: self.text.as_str().into(),
            spans: self.spans.as_slice().into(),
        }
    }

    /// Forgets the values of the record before and skips `count` fields.
    pub(crate) fn reset(&mut self, count: usize) {
        self.clear();
        let skipped = TextSpan {
            start: 0,
            len: SKIPPED,
        };
        self.spans.resize(count, skipped);
    }

    pub(crate) fn payloads_mut(&mut self) -> &mut PayloadReader {
        &mut self.payloads
    }

    /// What reads the record, and the buffer the next text is appended to.
    pub(crate) fn parts_mut(&mut self) -> (&mut PayloadReader, &mut String) {
        (&mut self.payloads, &mut self.text)
    }

    /// Present length of all texts, for [`Self::set_text`].
    pub(crate) fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Gives a field the text from `start` on; false if the texts became too long.
    pub(crate) fn set_text(&mut self, index: usize, start: usize) -> bool {
        if self.text.len() > TEXT_BYTES_MAX {
            return false;
        }
        // Both fit: the end of the text does.
        let (start, len) = (start as u32, (self.text.len() - start) as u32);
        self.spans[index] = TextSpan { start, len };
        true
    }

    /// Copies a value; false if the texts became too long.
    fn set(&mut self, index: usize, value: FieldValue<'_>) -> bool {
        match value {
            FieldValue::Skipped => true,
            FieldValue::Null => {
                self.set_null(index);
                true
            }
            FieldValue::Text(text) => {
                let start = self.text.len();
                self.text.push_str(text);
                self.set_text(index, start)
            }
        }
    }

    pub(crate) fn set_null(&mut self, index: usize) {
        self.spans[index] = TextSpan {
            start: 0,
            len: NULL,
        };
    }

    /// Removes the text from `start` on, which then belongs to no field.
    pub(crate) fn drop_text(&mut self, start: usize) {
        self.text.truncate(start);
    }
}

/// The field values of one record, immutable and compact: at most two allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenValues {
    text: Box<str>,
    spans: Box<[TextSpan]>,
}

impl FrozenValues {
    /// Number of fields, skipped ones included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if the mapping has no fields.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Text of a field by its index in the mapping; `None` for null and skipped fields.
    pub fn get(&self, index: usize) -> Option<&str> {
        self.value(index).text()
    }

    /// Value of a field by its index; an index beyond the fields counts as skipped.
    pub fn value(&self, index: usize) -> FieldValue<'_> {
        value(&self.text, &self.spans, index)
    }

    /// All values in field order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = FieldValue<'_>> {
        (0..self.spans.len()).map(|index| self.value(index))
    }

    /// These values, and in place of skipped fields those of `older` as far as `carries` says so;
    /// `None` if that changes nothing.
    pub fn over(&self, older: &Self, carries: impl Fn(usize) -> bool) -> Option<Self> {
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

    /// These values with some of them changed; `None` if the texts become too long.
    pub fn map<'a>(
        &'a self,
        change: impl Fn(usize, FieldValue<'a>) -> FieldValue<'a>,
    ) -> Option<Self> {
        let mut changed = FieldValues::new();
        changed.reset(self.len());
        for (index, value) in self.iter().enumerate() {
            if !changed.set(index, change(index, value)) {
                return None;
            }
        }
        Some(changed.freeze())
    }

    /// Bytes of all texts together.
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
    fn null_skipped_and_empty_are_told_apart() {
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
    fn skipped_fields_carry_older_values() {
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
        let merged = newer.over(&older, |index| index != 3).expect("a change");
        assert_eq!(
            merged,
            frozen(&[Text("x"), Text("b"), Null, Skipped, Skipped])
        );
        assert_eq!(newer.over(&older, |_| false), None);
        assert_eq!(older.over(&newer, |_| true), None);
    }

    #[test]
    fn values_can_be_exchanged() {
        use FieldValue::{Skipped, Text};
        let changed = sample().freeze().map(|index, value| match index {
            0 => Skipped,
            1 => Text("new"),
            _ => value,
        });
        let changed = changed.expect("short texts");
        let expected = [Skipped, Text("new"), Skipped, Text("")];
        assert_eq!(changed.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_frozen_copy_outlives_the_buffer() {
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
