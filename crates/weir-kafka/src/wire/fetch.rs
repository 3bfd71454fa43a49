//! Fetch version 11: by topic name, without compact encodings. Answers are read in place.

use bytes::BytesMut;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use kafka_protocol::messages::{ApiKey, BrokerId, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::header::write_request;
use super::reader::Reader;
use super::{EncodeError, WireError};

/// Newest version with plain encodings and topic names (13 and later carry topic ids only).
pub const VERSION: i16 = 11;

/// What to ask of one broker.
#[derive(Debug, Clone, Copy)]
pub struct FetchQuery<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Partition, next offset and leader epoch (-1: unchecked) of each partition wanted.
    pub partitions: &'a [(i32, i64, i32)],
    /// How long the broker may hold the request for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Bytes that make it answer sooner.
    pub min_bytes: i32,
    /// Bound of the answer; one batch larger than this still comes whole.
    pub max_bytes: i32,
}

/// Appends a fetch request, outside any fetch session.
pub fn write(
    out: &mut BytesMut,
    correlation_id: i32,
    client_id: &str,
    query: &FetchQuery<'_>,
) -> Result<(), EncodeError> {
    let partition = |(partition, offset, epoch): &(i32, i64, i32)| {
        FetchPartition::default()
            .with_partition(*partition)
            .with_current_leader_epoch(*epoch)
            .with_fetch_offset(*offset)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(query.max_bytes)
    };
    let body = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(query.max_wait_ms)
        .with_min_bytes(query.min_bytes)
        .with_max_bytes(query.max_bytes)
        .with_session_id(0)
        .with_session_epoch(-1)
        .with_topics(vec![
            FetchTopic::default()
                .with_topic(TopicName(StrBytes::from_string(query.topic.to_owned())))
                .with_partitions(query.partitions.iter().map(partition).collect()),
        ]);
    let api = ApiKey::Fetch;
    write_request(out, api, VERSION, correlation_id, client_id, &body)
}

/// One partition of an answer, borrowed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchedPartition<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Partition number.
    pub partition: i32,
    /// Kafka error code, 0 for none.
    pub error: i16,
    /// Offset behind the newest record that all in-sync replicas have.
    pub high_watermark: i64,
    /// Record batches, the last one possibly cut.
    pub records: &'a [u8],
}

/// Reads an answer's body and calls `sink` for each partition in it. Gives the answer's own
/// error code, 0 for none.
pub fn read<'a, E: From<WireError>>(
    body: &'a [u8],
    mut sink: impl FnMut(FetchedPartition<'a>) -> Result<(), E>,
) -> Result<i16, E> {
    let mut reader = Reader::new(body);
    reader.i32("throttle time")?;
    let error = reader.i16("error code")?;
    reader.i32("session id")?;
    for _ in 0..reader.count(6, "topics")? {
        let topic = reader.string("topic name")?;
        for _ in 0..reader.count(42, "partitions")? {
            sink(read_partition(&mut reader, topic)?)?;
        }
    }
    Ok(error)
}

fn read_partition<'a>(
    reader: &mut Reader<'a>,
    topic: &'a str,
) -> Result<FetchedPartition<'a>, WireError> {
    let partition = reader.i32("partition")?;
    let error = reader.i16("partition error")?;
    let high_watermark = reader.i64("high watermark")?;
    reader.i64("last stable offset")?;
    reader.i64("log start offset")?;
    let aborted = reader.count(16, "aborted transactions")?;
    reader.bytes(16 * aborted, "aborted transactions")?;
    reader.i32("preferred read replica")?;
    let records = reader.nullable_bytes("records")?;
    Ok(FetchedPartition {
        topic,
        partition,
        error,
        high_watermark,
        records: records.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kafka_protocol::messages::FetchResponse;
    use kafka_protocol::messages::fetch_response::{
        AbortedTransaction, FetchableTopicResponse, PartitionData,
    };
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    type Row = (i32, i16, i64, Option<Vec<u8>>, bool);

    fn encoded(rows: &[Row]) -> BytesMut {
        let partition = |(partition, error, high, records, aborted): &Row| {
            let aborted = aborted.then(|| vec![AbortedTransaction::default(); 2]);
            PartitionData::default()
                .with_partition_index(*partition)
                .with_error_code(*error)
                .with_high_watermark(*high)
                .with_aborted_transactions(aborted)
                .with_records(records.as_ref().map(|bytes| Bytes::copy_from_slice(bytes)))
        };
        let topic = FetchableTopicResponse::default()
            .with_topic(TopicName(StrBytes::from_static_str("t")))
            .with_partitions(rows.iter().map(partition).collect());
        let response = FetchResponse::default()
            .with_error_code(3)
            .with_responses(vec![topic]);
        let mut out = BytesMut::new();
        response.encode(&mut out, VERSION).expect("encodes");
        out
    }

    fn collect(body: &[u8]) -> Result<(i16, Vec<FetchedPartition<'_>>), WireError> {
        let mut rows = Vec::new();
        let error = read::<WireError>(body, |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok((error, rows))
    }

    fn row() -> impl Strategy<Value = Row> {
        let records = prop::option::of(prop::collection::vec(any::<u8>(), 0..30));
        (
            any::<i32>(),
            any::<i16>(),
            any::<i64>(),
            records,
            any::<bool>(),
        )
    }

    proptest! {
        #[test]
        fn reads_what_the_codec_writes(rows in prop::collection::vec(row(), 0..5), cut in 0_usize..300) {
            let bytes = encoded(&rows);
            let (error, found) = collect(&bytes)?;
            prop_assert_eq!(error, 3);
            prop_assert_eq!(found.len(), rows.len());
            for (found, row) in found.iter().zip(&rows) {
                prop_assert_eq!(found.topic, "t");
                prop_assert_eq!((found.partition, found.error, found.high_watermark), (row.0, row.1, row.2));
                prop_assert_eq!(found.records, row.3.as_deref().unwrap_or_default());
            }
            if cut < bytes.len() {
                prop_assert!(collect(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = collect(&bytes);
        }
    }
}
