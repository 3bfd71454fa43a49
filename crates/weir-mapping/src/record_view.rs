//! Borrowed view of a Kafka record, the input of the mapping.

/// A Kafka record as slices of the buffer it was fetched into.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Partition number.
    pub partition: i32,
    /// Offset inside the partition.
    pub offset: i64,
    /// Kafka timestamp in milliseconds since 1970; -1 if the record has none.
    pub timestamp_ms: i64,
    /// Serialized key, `None` if the record has a null key.
    pub key: Option<&'a [u8]>,
    /// Serialized value, `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers in record order; a key may occur more than once and a value may be null.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}
