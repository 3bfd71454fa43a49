//! Records of a batch and their headers, which are parsed on demand.

use super::RecordsError;
use crate::WireError;
use crate::reader::WireReader;

/// Iterator over the records of one batch, in offset order.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    pub(super) reader: WireReader<'a>,
    pub(super) left: usize,
    pub(super) base_offset: i64,
    /// Timestamp of all records, set by the broker.
    pub(super) log_append_time_ms: Option<i64>,
    /// Base of the timestamps if `log_append_time_ms` is `None`; each record stores the difference
    /// from it.
    pub(super) base_timestamp_ms: i64,
}

impl<'a> Records<'a> {
    fn next_record(&mut self) -> Result<RecordSlice<'a>, RecordsError> {
        let body = self.reader.varint_bytes("record length")?;
        let body = body.ok_or(WireError::Length {
            what: "record length",
            value: -1,
        })?;
        let mut reader = WireReader::new(body);
        reader.i8("record attributes")?;
        let timestamp_delta = reader.varlong("timestamp delta")?;
        let offset_delta = reader.varint("offset delta")?;
        let offset = self
            .base_offset
            .checked_add(i64::from(offset_delta))
            .ok_or(RecordsError::Overflow { what: "offset" })?;
        let timestamp_ms = match self.log_append_time_ms {
            Some(timestamp_ms) => timestamp_ms,
            None => (self.base_timestamp_ms)
                .checked_add(timestamp_delta)
                .ok_or(RecordsError::Overflow { what: "timestamp" })?,
        };
        Ok(RecordSlice {
            offset,
            timestamp_ms,
            log_append_time: self.log_append_time_ms.is_some(),
            key: reader.varint_bytes("key")?,
            value: reader.varint_bytes("value")?,
            header_bytes: reader.rest(),
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordSlice<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let left = self.reader.rest().len();
            self.reader = WireReader::new(&[]);
            return (left > 0).then_some(Err(RecordsError::Trailing { left }));
        }
        self.left -= 1;
        let next = self.next_record();
        if next.is_err() {
            self.left = 0;
            self.reader = WireReader::new(&[]);
        }
        Some(next)
    }
}

/// A borrowed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSlice<'a> {
    /// Offset in its partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, -1 for none.
    pub timestamp_ms: i64,
    /// `timestamp_ms` was set by the broker (`LogAppendTime`), not by the producer.
    pub log_append_time: bool,
    /// Key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// Value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    header_bytes: &'a [u8],
}

impl<'a> RecordSlice<'a> {
    /// Returns the headers in order. They are parsed on iteration.
    pub fn headers(&self) -> Headers<'a> {
        Headers::new(self.header_bytes, self.offset)
    }

    /// Returns the value of the last header with this name, as Kafka's own clients do. Invalid
    /// headers are ignored.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let matching = self.headers().flatten().filter(|(key, _)| *key == name);
        matching.last().and_then(|(_, value)| value)
    }
}

/// Name and value of a header; the value may be null.
pub type HeaderSlice<'a> = (&'a str, Option<&'a [u8]>);

/// Iterator over the headers of one record.
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    reader: WireReader<'a>,
    offset: i64,
    left: Option<i32>,
}

impl<'a> Headers<'a> {
    /// Creates an iterator over the header count and the headers of the record at `offset`.
    pub fn new(header_bytes: &'a [u8], offset: i64) -> Self {
        Self {
            reader: WireReader::new(header_bytes),
            offset,
            left: None,
        }
    }

    fn next_header(&mut self) -> Result<Option<HeaderSlice<'a>>, RecordsError> {
        let left = match self.left {
            Some(left) => left,
            None => {
                let count = self.reader.varint("header count")?;
                if count < 0 {
                    let value = i64::from(count);
                    let what = "header count";
                    return Err(WireError::Length { what, value }.into());
                }
                count
            }
        };
        if left == 0 {
            self.left = Some(0);
            return match self.reader.rest().len() {
                0 => Ok(None),
                left => Err(RecordsError::RecordLength {
                    offset: self.offset,
                    left,
                }),
            };
        }
        self.left = Some(left - 1);
        let what = "header name";
        let name = self.reader.varint_bytes(what)?;
        let name = name.ok_or(WireError::Length { what, value: -1 })?;
        let name = std::str::from_utf8(name).map_err(|_| WireError::Utf8 { what })?;
        Ok(Some((name, self.reader.varint_bytes("header value")?)))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<HeaderSlice<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_header();
        // A name that is not UTF-8 invalidates one header; an invalid length invalidates the
        // remaining ones.
        let is_name_invalid = matches!(next, Err(RecordsError::Wire(WireError::Utf8 { .. })));
        if is_name_invalid && self.reader.varint_bytes("header value").is_ok() {
            return next.transpose();
        }
        if next.is_err() {
            self.left = Some(0);
            self.reader = WireReader::new(&[]);
        }
        next.transpose()
    }
}
