//! The borrowed form in which a Kafka record reaches the mapping.

/// One Kafka record as slices into the buffer it was fetched in.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Partition number.
    pub partition: i32,
    /// Offset inside the partition.
    pub offset: i64,
    /// Kafka timestamp in milliseconds since the epoch; -1 where the record carries none.
    pub timestamp_ms: i64,
    /// Serialized key, `None` if the record has a null key.
    pub key: Option<&'a [u8]>,
    /// Serialized value, `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers in record order; a key may occur more than once and a value may be null.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}
