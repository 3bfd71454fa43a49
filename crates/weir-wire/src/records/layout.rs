//! Positions of the parts of records in decompressed batches, used to replace some parts.

use std::ops::Range;

use super::RecordsError;
use crate::WireError;
use crate::reader::WireReader;

/// Positions of one record's parts; ranges count from the start of the bytes read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLayout {
    /// Attributes, timestamp and offset, which are never changed.
    pub fixed: Range<usize>,
    /// The key without its length; `None` is a null key.
    pub key: Option<Range<usize>>,
    /// The value without its length; `None` is a tombstone.
    pub value: Option<Range<usize>>,
    /// The header count and the headers.
    pub headers: Range<usize>,
}

impl RecordLayout {
    /// Reads the record that starts at `at`. The next one starts where its headers end.
    pub fn read(bytes: &[u8], at: usize) -> Result<Self, RecordsError> {
        let mut outer = WireReader::new(bytes.get(at..).unwrap_or_default());
        let body = outer.varint_bytes("record length")?;
        let body = body.ok_or(WireError::Length {
            what: "record length",
            value: -1,
        })?;
        let end = bytes.len() - outer.rest().len();
        let start = end - body.len();
        let mut reader = WireReader::new(body);
        reader.i8("record attributes")?;
        reader.varlong("timestamp delta")?;
        reader.varint("offset delta")?;
        let fixed = start..end - reader.rest().len();
        let mut sized = |what| -> Result<Option<Range<usize>>, RecordsError> {
            let found = reader.varint_bytes(what)?;
            let end = end - reader.rest().len();
            Ok(found.map(|bytes| end - bytes.len()..end))
        };
        let key = sized("key")?;
        let value = sized("value")?;
        Ok(Self {
            fixed,
            key,
            value,
            headers: end - reader.rest().len()..end,
        })
    }

    /// Returns the position of the next record.
    pub fn end(&self) -> usize {
        self.headers.end
    }
}

/// Appends a record with a new value and new headers. Its other parts are copied from `bytes` at
/// the positions of `layout`. `headers` starts with the header count.
pub fn put_record(
    out: &mut Vec<u8>,
    bytes: &[u8],
    layout: &RecordLayout,
    value: Option<&[u8]>,
    headers: &[u8],
) {
    let key = layout.key.clone().map(|key| &bytes[key]);
    let fixed = &bytes[layout.fixed.clone()];
    let sized = |part: Option<&[u8]>| match part {
        None => varint_bytes(-1),
        Some(part) => varint_bytes(part.len() as i64) + part.len(),
    };
    let length = fixed.len() + sized(key) + sized(value) + headers.len();
    put_varint(out, length as i64);
    out.extend_from_slice(fixed);
    for part in [key, value] {
        put_varint_bytes(out, part);
    }
    out.extend_from_slice(headers);
}

/// Appends a zigzag length and the bytes; null is length -1.
pub fn put_varint_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

/// Appends a zigzag number.
pub fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

fn varint_bytes(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip() {
        let edges = [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 1 << 30];
        for value in edges.into_iter().chain([i64::from(i32::MAX)]) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_bytes(value), "{value}");
            assert_eq!(WireReader::new(&out).varlong("n"), Ok(value));
        }
    }
}
