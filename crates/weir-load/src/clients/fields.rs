//! Positions of special fields in the field schema.

/// Positions, from 1, of the fields that clients read; other fields are only counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldMap {
    /// Number of fields.
    pub count: usize,
    /// `key`: must equal the key of the client's item.
    pub key: Option<usize>,
    /// `timestamp`, else `value`: has the due time as text.
    pub due: Option<usize>,
    /// `partition`: partition of the record.
    pub partition: Option<usize>,
    /// `offset`: offset of the record.
    pub offset: Option<usize>,
    /// `ts`: timestamp of the record in milliseconds.
    pub stored: Option<usize>,
    /// `weir`: stamp of the record.
    pub stamp: Option<usize>,
}

impl FieldMap {
    /// Finds the fields in a schema.
    pub fn new(fields: &[String]) -> Self {
        let position = |name: &str| {
            fields
                .iter()
                .position(|field| field == name)
                .map(|at| at + 1)
        };
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

    /// Returns `true` if every update has partition and offset of its record.
    pub fn has_position(&self) -> bool {
        self.partition.is_some() && self.offset.is_some()
    }
}
