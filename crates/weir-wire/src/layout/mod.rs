//! Positions of the parts of messages that contain records, so that a few bytes can be changed
//! without decoding the rest. Unknown tagged fields are skipped.

mod fetch;
mod produce;
mod produce_response;

use std::ops::Range;

use super::WireError;
use super::reader::WireReader;

pub use produce::produce;
pub use produce_response::{
    PartitionError, produce_response, put_partition_error, put_topic_errors,
};

pub use fetch::fetch;

/// Latest known version of Produce.
pub const PRODUCE_VERSION_MAX: i16 = 13;
/// Latest known version of Fetch.
pub const FETCH_VERSION_MAX: i16 = 18;
/// First version of Produce and of Fetch with topic ids instead of names.
const IDS_VERSION_MIN: i16 = 13;

/// Maximum number of topics and partitions in one message.
pub const ROWS_MAX: usize = 100_000;

/// Positions of topics and partitions in a message; ranges count from the start of the bytes read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageLayout {
    /// Requested acknowledgements; 0 in responses.
    pub acks: i16,
    /// Field with the number of topics.
    pub topic_count: Range<usize>,
    /// Topics in message order.
    pub topics: Vec<TopicSpan>,
    /// Partitions of all topics in message order.
    pub partitions: Vec<PartitionSpan>,
    /// Position after the last topic.
    pub topics_end: usize,
}

impl MessageLayout {
    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.topics.clear();
        self.partitions.clear();
        (self.acks, self.topics_end, self.topic_count) = (0, 0, 0..0);
    }

    /// Replaces the entries by the array of topics at the cursor. A partition has at least
    /// `partition_bytes_min` bytes and is read by `partition`.
    fn read_topics<'a>(
        &mut self,
        cursor: &mut LayoutCursor<'a>,
        partition_bytes_min: usize,
        partition: impl Fn(&mut LayoutCursor<'a>) -> Result<PartitionSpan, WireError>,
    ) -> Result<(), WireError> {
        self.clear();
        let (topics, count_field) = cursor.count(2, "topics")?;
        self.check_rows(topics, "topics")?;
        self.topic_count = count_field;
        for _ in 0..topics {
            let start = cursor.at();
            let topic = cursor.topic()?;
            let (partitions, partition_count) = cursor.count(partition_bytes_min, "partitions")?;
            self.check_rows(partitions, "partitions")?;
            let first = self.partitions.len();
            for _ in 0..partitions {
                self.partitions.push(partition(cursor)?);
            }
            let partitions_end = cursor.at();
            cursor.tags()?;
            self.topics.push(TopicSpan {
                whole: start..cursor.at(),
                topic,
                partition_count,
                partitions: first..self.partitions.len(),
                partitions_end,
            });
        }
        self.topics_end = cursor.at();
        Ok(())
    }

    /// Returns an error if `more` topics or partitions would exceed [`ROWS_MAX`], because an entry
    /// takes many times the bytes of its shortest encoding.
    fn check_rows(&self, more: usize, what: &'static str) -> Result<(), WireError> {
        let rows = self.topics.len() + self.partitions.len();
        match rows.saturating_add(more) <= ROWS_MAX {
            true => Ok(()),
            false => Err(WireError::Length {
                what,
                value: i64::try_from(more).unwrap_or(i64::MAX),
            }),
        }
    }

    /// Removes all entries and frees memory for more than `rows` topics or partitions.
    pub fn shrink(&mut self, rows: usize) {
        self.clear();
        self.topics.shrink_to(rows);
        self.partitions.shrink_to(rows);
    }
}

/// One topic of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSpan {
    /// The whole topic.
    pub whole: Range<usize>,
    /// Topic name in UTF-8, or the 16 bytes of the topic id.
    pub topic: Range<usize>,
    /// Field with the number of partitions.
    pub partition_count: Range<usize>,
    /// Partitions of the topic, as indices of [`MessageLayout::partitions`].
    pub partitions: Range<usize>,
    /// Position after the last partition.
    pub partitions_end: usize,
}

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSpan {
    /// The whole partition.
    pub whole: Range<usize>,
    /// Partition number.
    pub index: i32,
    /// Position of the error code, in responses.
    pub error_at: usize,
    /// Field with the length of the records; empty in Produce responses.
    pub length: Range<usize>,
    /// The records; empty if null.
    pub records: Range<usize>,
}

/// Reader that tracks its position.
#[derive(Debug, Clone)]
struct LayoutCursor<'a> {
    reader: WireReader<'a>,
    length: usize,
    flexible: bool,
    has_ids: bool,
}

impl<'a> LayoutCursor<'a> {
    fn new(bytes: &'a [u8], version: i16, flexible: bool) -> Self {
        Self {
            reader: WireReader::new(bytes),
            length: bytes.len(),
            flexible,
            has_ids: has_topic_ids(version),
        }
    }

    fn at(&self) -> usize {
        self.length - self.reader.rest().len()
    }

    fn skip(&mut self, count: usize, what: &'static str) -> Result<(), WireError> {
        self.reader.bytes(count, what).map(drop)
    }

    /// Reads the count of an array with elements of at least `element_bytes_min` bytes. Returns it
    /// with the range of its field.
    fn count(
        &mut self,
        element_bytes_min: usize,
        what: &'static str,
    ) -> Result<(usize, Range<usize>), WireError> {
        let start = self.at();
        let count = match self.flexible {
            true => self.reader.compact_count(element_bytes_min, what)?,
            false => self.reader.count(element_bytes_min, what)?,
        };
        Ok((count, start..self.at()))
    }

    /// Skips a string, which may be null.
    fn skip_string(&mut self, what: &'static str) -> Result<(), WireError> {
        let text = match self.flexible {
            true => self.reader.compact_bytes(what),
            false => self.reader.short_bytes(what),
        };
        text.map(drop)
    }

    /// Reads a topic id, or a name in UTF-8, which must not be null. Returns its range.
    fn topic(&mut self) -> Result<Range<usize>, WireError> {
        let bytes = match (self.has_ids, self.flexible) {
            (true, _) => self.reader.bytes(16, "topic id")?.len(),
            (false, true) => self.reader.compact_string("topic name")?.len(),
            (false, false) => self.reader.string("topic name")?.len(),
        };
        Ok(self.at() - bytes..self.at())
    }

    /// Reads a length and skips the bytes after it; null counts as empty. Returns both ranges.
    fn sized(&mut self, what: &'static str) -> Result<(Range<usize>, Range<usize>), WireError> {
        let start = self.at();
        let bytes = match self.flexible {
            true => self.reader.compact_bytes(what)?,
            false => self.reader.nullable_bytes(what)?,
        };
        let (bytes_start, end) = (self.at() - bytes.map_or(0, <[u8]>::len), self.at());
        Ok((start..bytes_start, bytes_start..end))
    }

    /// Skips tagged fields, which only flexible versions have.
    fn tags(&mut self) -> Result<(), WireError> {
        match self.flexible {
            true => self.reader.skip_tags("tagged field"),
            false => Ok(()),
        }
    }

    /// Skips the last tagged fields. Returns an error if there are unread bytes.
    fn end(mut self) -> Result<(), WireError> {
        self.tags()?;
        match i64::try_from(self.reader.rest().len()) {
            Ok(0) => Ok(()),
            left => Err(WireError::Length {
                what: "bytes after the message",
                value: left.unwrap_or(i64::MAX),
            }),
        }
    }
}

/// Appends an unsigned variable-length number.
pub fn put_uvarint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the count of an array or the length of bytes, in 4 bytes or compact.
pub fn put_length(out: &mut Vec<u8>, flexible: bool, length: usize) {
    // Invariant: the counted elements are part of frames, whose size has 31 bits.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    match flexible {
        true => put_uvarint(out, length.saturating_add(1)),
        false => out.extend_from_slice(&length.to_be_bytes()),
    }
}

/// Appends a string, truncated to the maximum length.
pub fn put_string(out: &mut Vec<u8>, flexible: bool, text: &str) {
    let mut end = text.len().min(STRING_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text.as_bytes()[..end];
    match flexible {
        true => put_length(out, true, text.len()),
        false => out.extend_from_slice(&(text.len() as i16).to_be_bytes()),
    }
    out.extend_from_slice(text);
}

/// Returns `true` if the Produce version has compact lengths and tagged fields.
pub fn produce_is_flexible(version: i16) -> bool {
    version >= 9
}

/// Returns `true` if the Fetch version has compact lengths and tagged fields.
pub fn fetch_is_flexible(version: i16) -> bool {
    version >= 12
}

/// Returns `true` if this version of Produce or Fetch has topic ids instead of names.
pub fn has_topic_ids(version: i16) -> bool {
    version >= IDS_VERSION_MIN
}

const STRING_BYTES_MAX: usize = i16::MAX as usize;

#[cfg(test)]
mod tests;
