//! Partitions of a produce request that filters rejected, and the response to their producer.

use std::collections::HashMap;

use weir_wire::WireError;
use weir_wire::byte_edits::ByteEdits;
use weir_wire::layout::{
    MessageLayout, PartitionError, TopicSpan, produce_is_flexible, produce_response, put_length,
    put_partition_error, put_topic_errors,
};

use crate::batch::BatchRejection;

/// Partitions removed from a produce request. The response contains an error for each of them; the
/// producer continues with the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectedPartitions {
    /// By topic name, or the bytes of the topic id.
    topics: Vec<(Vec<u8>, Vec<RejectedPartition>)>,
    /// Records listed so far.
    listed: usize,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RejectedPartition {
    partition: i32,
    error: i16,
    message: String,
    records: Vec<(i32, String)>,
}

impl RejectedPartition {
    fn as_error(&self) -> PartitionError<'_> {
        PartitionError {
            partition: self.partition,
            error: self.error,
            message: &self.message,
            records: &self.records,
        }
    }
}

impl RejectedPartitions {
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Returns the error codes, each once.
    pub fn errors(&self) -> Vec<i16> {
        let rows = self.topics.iter().flat_map(|(_, rows)| rows);
        let mut errors: Vec<_> = rows.map(|row| row.error).collect();
        errors.sort_unstable();
        errors.dedup();
        errors
    }

    /// Returns the memory in use, in bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn add(&mut self, topic: &[u8], partition: i32, rejection: BatchRejection) {
        let (error, message, mut records) = describe_rejection(rejection);
        records.truncate(RECORDS_LISTED_MAX - self.listed.min(RECORDS_LISTED_MAX));
        self.listed += records.len();
        self.bytes += ROW_BYTES + topic.len() + message.len();
        self.bytes += records
            .iter()
            .map(|row| ROW_BYTES + row.1.len())
            .sum::<usize>();
        let row = RejectedPartition {
            partition,
            error,
            message,
            records,
        };
        match self.topics.last_mut().filter(|(last, _)| last == topic) {
            Some((_, rows)) => rows.push(row),
            None => self.topics.push((topic.to_vec(), vec![row])),
        }
    }

    /// Returns the body of a response to a request of which no partition is left.
    pub fn response(&self, version: i16) -> Vec<u8> {
        let flexible = produce_is_flexible(version);
        let mut out = Vec::new();
        put_length(&mut out, flexible, self.topics.len());
        for (topic, rows) in &self.topics {
            let rows: Vec<_> = rows.iter().map(RejectedPartition::as_error).collect();
            put_topic_errors(&mut out, version, topic, &rows);
        }
        if version >= 1 {
            out.extend_from_slice(&[0; 4]); // throttle time
        }
        if flexible {
            out.push(0); // no tagged fields
        }
        out
    }

    /// Returns the broker's response to the forwarded partitions with the errors of the rejected
    /// ones added.
    pub fn merge(&self, version: i16, body: &[u8]) -> Result<Vec<u8>, WireError> {
        let mut layout = MessageLayout::default();
        produce_response(body, version, &mut layout)?;
        let flexible = produce_is_flexible(version);
        let mut edits = ByteEdits::default();
        let mut topics = layout.topics.len();
        // If a topic occurs twice, the first occurrence is used, hence the reverse order.
        let by_key: HashMap<&[u8], &TopicSpan> = layout
            .topics
            .iter()
            .rev()
            .map(|topic| (&body[topic.topic.clone()], topic))
            .collect();
        for (key, rows) in &self.topics {
            let known = by_key.get(key.as_slice()).copied();
            let rows: Vec<_> = rows.iter().map(RejectedPartition::as_error).collect();
            let Some(topic) = known else {
                topics += 1;
                let end = layout.topics_end;
                edits.replace(end..end, |out| put_topic_errors(out, version, key, &rows));
                continue;
            };
            let count = topic.partitions.len() + rows.len();
            edits.replace(topic.partition_count.clone(), |out| {
                put_length(out, flexible, count);
            });
            let end = topic.partitions_end;
            edits.replace(end..end, |out| {
                for row in &rows {
                    put_partition_error(out, version, row);
                }
            });
        }
        if topics > layout.topics.len() {
            edits.replace(layout.topic_count.clone(), |out| {
                put_length(out, flexible, topics);
            });
        }
        let mut out = Vec::with_capacity(body.len() + EXTRA_BYTES);
        edits.apply(body, &mut out);
        Ok(out)
    }
}

/// Returns error code, text and rejected records. No code is fatal for a producer: it splits a
/// batch that is too large, and reports the other batches as failed.
fn describe_rejection(rejection: BatchRejection) -> (i16, String, Vec<(i32, String)>) {
    match rejection {
        BatchRejection::Records(records) => {
            let text = "rejected by a filter of the proxy".to_owned();
            (INVALID_RECORD, text, records)
        }
        BatchRejection::Invalid(text) => (INVALID_RECORD, text, Vec::new()),
        BatchRejection::OldFormat => {
            let text = "filters of the proxy need message format 2".to_owned();
            (UNSUPPORTED_FOR_MESSAGE_FORMAT, text, Vec::new())
        }
        BatchRejection::TooLarge(text) => (MESSAGE_TOO_LARGE, text, Vec::new()),
        BatchRejection::UnknownTopic => {
            let text = "the proxy knows no topic with this id".to_owned();
            (UNKNOWN_TOPIC_ID, text, Vec::new())
        }
        BatchRejection::Corrupt => (CORRUPT_MESSAGE, "wrong checksum".to_owned(), Vec::new()),
    }
}

const CORRUPT_MESSAGE: i16 = 2;
const MESSAGE_TOO_LARGE: i16 = 10;
const UNSUPPORTED_FOR_MESSAGE_FORMAT: i16 = 43;
const INVALID_RECORD: i16 = 87;
const UNKNOWN_TOPIC_ID: i16 = 100;
/// Maximum number of rejected records in one response. A producer needs only the first ones, and a
/// small compressed request must not cause a large response.
const RECORDS_LISTED_MAX: usize = 1_000;
/// Memory of an entry in addition to its text.
const ROW_BYTES: usize = 64;
/// Extra capacity of a merged response, for the errors of a few partitions.
const EXTRA_BYTES: usize = 256;
