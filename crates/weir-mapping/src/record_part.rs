//! Parts of a record that evaluators read: key and value.

use strum::Display;

/// Part of a record that an evaluator reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum RecordPart {
    Key,
    Value,
}

/// A pair of values, one for the key and one for the value of a record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeyAndValue<T> {
    pub(crate) key: T,
    pub(crate) value: T,
}

impl<T> KeyAndValue<T> {
    pub(crate) fn of(&self, part: RecordPart) -> &T {
        match part {
            RecordPart::Key => &self.key,
            RecordPart::Value => &self.value,
        }
    }

    pub(crate) fn of_mut(&mut self, part: RecordPart) -> &mut T {
        match part {
            RecordPart::Key => &mut self.key,
            RecordPart::Value => &mut self.value,
        }
    }
}
