//! Positions of a record's parts in the bytes of its batch, for records that outlive the borrow of
//! these bytes.

use super::RecordsError;
use crate::WireError;
use crate::reader::WireReader;

/// Fields of a batch that its records refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct BatchBase {
    pub offset: i64,
    pub timestamp_ms: i64,
    /// Timestamp of all records, set by the broker.
    pub log_append_time_ms: Option<i64>,
}

/// A record and the positions of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct RecordPosition {
    pub offset: i64,
    pub timestamp_ms: i64,
    key: PartPosition,
    value: PartPosition,
    headers: PartPosition,
}

/// Position of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PartPosition {
    start: u32,
    /// `NULL` for a null part.
    len: u32,
}

impl RecordPosition {
    /// Reads the record at `at` of `bytes`, of which it uses no more than `end`. Returns it with
    /// the position after it.
    pub fn read(
        base: &BatchBase,
        bytes: &[u8],
        (at, end): (usize, usize),
    ) -> Result<(Self, usize), RecordsError> {
        let mut outer = WireReader::new(bytes.get(at..end).unwrap_or_default());
        let body = outer.varint_bytes("record length")?;
        let body = body.ok_or(WireError::Length {
            what: "record length",
            value: -1,
        })?;
        let after = end - outer.rest().len();
        let mut reader = WireReader::new(body);
        reader.i8("record attributes")?;
        let timestamp_delta = reader.varlong("timestamp delta")?;
        let offset_delta = reader.varint("offset delta")?;
        let offset = base.offset.checked_add(i64::from(offset_delta));
        let timestamp_ms = match base.log_append_time_ms {
            Some(timestamp_ms) => Some(timestamp_ms),
            None => base.timestamp_ms.checked_add(timestamp_delta),
        };
        let mut part = |what| -> Result<PartPosition, RecordsError> {
            let found = reader.varint_bytes(what)?;
            PartPosition::before(after - reader.rest().len(), found.map(<[u8]>::len))
        };
        let (key, value) = (part("key")?, part("value")?);
        let position = Self {
            offset: offset.ok_or(RecordsError::Overflow { what: "offset" })?,
            timestamp_ms: timestamp_ms.ok_or(RecordsError::Overflow { what: "timestamp" })?,
            key,
            value,
            headers: PartPosition::before(after, Some(reader.rest().len()))?,
        };
        Ok((position, after))
    }

    /// Returns the key of the record in `bytes`.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.key.of(bytes)
    }

    /// Returns the value of the record in `bytes`.
    pub fn value<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.value.of(bytes)
    }

    /// Returns the header count and the headers of the record in `bytes`.
    pub fn headers<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.headers.of(bytes).unwrap_or_default()
    }
}

impl PartPosition {
    fn before(end: usize, len: Option<usize>) -> Result<Self, RecordsError> {
        let start = end - len.unwrap_or(0);
        let number = |value| u32::try_from(value).ok();
        // Responses and decompressed batches are limited to far less than 4 GiB.
        let overflow = || RecordsError::Overflow { what: "position" };
        Ok(Self {
            start: number(start).ok_or_else(overflow)?,
            len: len.map_or(Some(NULL), number).ok_or_else(overflow)?,
        })
    }

    fn of<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if self.len == NULL {
            return None;
        }
        let start = self.start as usize;
        bytes.get(start..start + self.len as usize)
    }
}

const NULL: u32 = u32::MAX;
