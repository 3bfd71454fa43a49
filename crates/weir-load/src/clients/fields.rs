//! Where the fields that carry meaning stand in the schema.

/// Positions from 1 of the fields the clients look at; the others are only counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldMap {
    /// Number of fields.
    pub count: usize,
    /// `key`: must be the key the client asked for.
    pub key: Option<usize>,
    /// `timestamp`, else `value`: holds the due instant as text.
    pub due: Option<usize>,
    /// `partition` of the record.
    pub partition: Option<usize>,
    /// `offset` of the record.
    pub offset: Option<usize>,
    /// `ts`: the record's time stamp in milliseconds.
    pub stored: Option<usize>,
    /// `weir`: the stamp.
    pub stamp: Option<usize>,
}

impl FieldMap {
    /// Looks the names up in a schema.
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

    /// Whether partition and offset of every record are known.
    pub fn has_position(&self) -> bool {
        self.partition.is_some() && self.offset.is_some()
    }
}
