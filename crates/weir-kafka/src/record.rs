//! A Kafka record as lent to its reader: nothing in it is copied.

use smallvec::SmallVec;

/// Header names and values in the order they were written; four fit without an allocation.
pub type HeaderList<'a> = SmallVec<[(&'a str, Option<&'a [u8]>); 4]>;

/// One record, borrowed from the client's receive buffer for the length of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// Topic the record was read from.
    pub topic: &'a str,
    /// Partition of that topic.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, -1 if the record carries no timestamp.
    pub timestamp_ms: i64,
    /// Key bytes; `None` is a null key, which differs from an empty one.
    pub key: Option<&'a [u8]>,
    /// Value bytes; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers in order. A name that is not UTF-8 is left out.
    pub headers: HeaderList<'a>,
}
