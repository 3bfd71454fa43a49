//! Positions of special fields in the field schema.

/// Positions, from 1, of the fields that clients read; other fields are only counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FieldMap {
    /// Number of fields.
    pub(super) count: usize,
    /// `key`: must equal the key of the client's item.
    pub(super) key: Option<usize>,
    /// `timestamp`, else `value`: has the due time as text.
    pub(super) due: Option<usize>,
    pub(super) partition: Option<usize>,
    pub(super) offset: Option<usize>,
    /// `ts`: timestamp of the record in milliseconds.
    pub(super) stored: Option<usize>,
    /// `weir`: stamp of the record.
    pub(super) stamp: Option<usize>,
}

impl FieldMap {
    /// Finds the fields in a schema.
    pub(super) fn new(fields: &[String]) -> Self {
        let position = |name| Some(fields.iter().position(|field| field == name)? + 1);
        Self {
            count: fields.len(),
            key: position("key"),
            due: position("timestamp").or_else(|| position("value")),
            partition: position("partition"),
            offset: position("offset"),
            stored: position("ts"),
            stamp: position("weir"),
        }
    }
}
