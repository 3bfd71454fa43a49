//! A record borrowed from the client.

use smallvec::SmallVec;

/// Header names and values in record order. Up to four need no allocation.
pub type HeaderList<'a> = SmallVec<[(&'a str, Option<&'a [u8]>); 4]>;

/// A record, borrowed from the client's receive buffer for the duration of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// Topic the record was read from.
    pub topic: &'a str,
    /// Partition of that topic.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch; -1 if the record has no timestamp.
    pub timestamp_ms: i64,
    /// Key bytes; `None` is a null key, which differs from an empty one.
    pub key: Option<&'a [u8]>,
    /// Value bytes; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers in record order. Headers whose names are not UTF-8 are skipped.
    pub headers: HeaderList<'a>,
}
