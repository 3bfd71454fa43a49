//! Layout of Produce responses, versions 0 to 13, and encoding of partition errors.

use super::{
    LayoutCursor, MessageLayout, PartitionSpan, has_topic_ids, produce_is_flexible, put_length,
    put_string, put_uvarint,
};
use crate::WireError;

/// Finds topics and partitions in the body of a response.
pub fn produce_response(
    body: &[u8],
    version: i16,
    layout: &mut MessageLayout,
) -> Result<(), WireError> {
    let mut cursor = LayoutCursor::new(body, version, produce_is_flexible(version));
    layout.read_topics(&mut cursor, 14, |cursor| partition(cursor, version))?;
    if version >= 1 {
        cursor.skip(4, "throttle time")?;
    }
    cursor.end()
}

fn partition(cursor: &mut LayoutCursor<'_>, version: i16) -> Result<PartitionSpan, WireError> {
    let start = cursor.at();
    let index = cursor.reader.i32("partition")?;
    let error_at = cursor.at();
    cursor.skip(2 + 8, "error code and base offset")?;
    if version >= 2 {
        cursor.skip(8, "log append time")?;
    }
    if version >= 5 {
        cursor.skip(8, "log start offset")?;
    }
    if version >= 8 {
        let (errors, _) = cursor.count(5, "record errors")?;
        for _ in 0..errors {
            cursor.skip(4, "batch index")?;
            cursor.skip_string("record error")?;
            cursor.tags()?;
        }
        cursor.skip_string("error message")?;
    }
    cursor.tags()?;
    let end = cursor.at();
    Ok(PartitionSpan {
        whole: start..end,
        index,
        error_at,
        length: end..end,
        records: end..end,
    })
}

/// Error of a partition whose records were not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionError<'a> {
    /// Partition number.
    pub partition: i32,
    /// Kafka error code.
    pub error: i16,
    /// Error message; sent from version 8.
    pub message: &'a str,
    /// Invalid records by index in the batch, with a message each; sent from version 8.
    pub records: &'a [(i32, String)],
}

/// Appends the error of one partition.
pub fn put_partition_error(out: &mut Vec<u8>, version: i16, row: &PartitionError<'_>) {
    let flexible = produce_is_flexible(version);
    out.extend_from_slice(&row.partition.to_be_bytes());
    out.extend_from_slice(&row.error.to_be_bytes());
    out.extend_from_slice(&UNKNOWN); // base offset
    if version >= 2 {
        out.extend_from_slice(&UNKNOWN); // log append time
    }
    if version >= 5 {
        out.extend_from_slice(&UNKNOWN); // log start offset
    }
    if version >= 8 {
        put_length(out, flexible, row.records.len());
        for (index, text) in row.records {
            out.extend_from_slice(&index.to_be_bytes());
            put_string(out, flexible, text);
            no_tags(out, flexible);
        }
        put_string(out, flexible, row.message);
    }
    no_tags(out, flexible);
}

/// Appends a topic with the errors of its partitions. `topic` is its name, or the bytes of its id.
pub fn put_topic_errors(
    out: &mut Vec<u8>,
    version: i16,
    topic: &[u8],
    rows: &[PartitionError<'_>],
) {
    let flexible = produce_is_flexible(version);
    match has_topic_ids(version) {
        true => out.extend_from_slice(topic),
        // Invariant: the name is part of a message, so its length has at most 15 bits.
        false => {
            match flexible {
                true => put_length(out, true, topic.len()),
                false => out.extend_from_slice(&(topic.len() as i16).to_be_bytes()),
            }
            out.extend_from_slice(topic);
        }
    }
    put_length(out, flexible, rows.len());
    for row in rows {
        put_partition_error(out, version, row);
    }
    no_tags(out, flexible);
}

fn no_tags(out: &mut Vec<u8>, flexible: bool) {
    if flexible {
        put_uvarint(out, 0);
    }
}

const UNKNOWN: [u8; 8] = (-1_i64).to_be_bytes();
