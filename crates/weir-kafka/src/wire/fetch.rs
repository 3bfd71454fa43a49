//! Fetch version 11: with topic names, without compact encodings. Responses are read without
//! copies.

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::ApiKey;

use super::frame::SIZE_BYTES;
use super::reader::WireReader;
use super::{EncodeError, WireError};

/// Latest version without compact encodings (13 and later have topic ids only).
pub(crate) const VERSION: i16 = 11;

/// Parameters of a fetch request, except its partitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchQuery<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) topic: &'a str,
    /// Maximum time the broker waits for `min_bytes`, in milliseconds.
    pub(crate) max_wait_ms: i32,
    /// Minimum size of the records in the response, unless `max_wait_ms` elapses.
    pub(crate) min_bytes: i32,
    /// Maximum size of the records in the response. A larger first batch is returned whole.
    pub(crate) max_bytes: i32,
}

/// Appends a fetch request without a fetch session. `partitions` contains partitions and their next
/// offsets. Encoded here without allocations, because each consumer sends one per response.
pub(crate) fn write(
    out: &mut BytesMut,
    correlation_id: i32,
    query: &FetchQuery<'_>,
    partitions: impl ExactSizeIterator<Item = (i32, i64)>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.put_i32(0);
    out.put_i16(ApiKey::Fetch as i16);
    out.put_i16(VERSION);
    out.put_i32(correlation_id);
    put_string(out, query.client_id)?;
    out.put_i32(-1); // replica id: a consumer
    out.put_i32(query.max_wait_ms);
    out.put_i32(query.min_bytes);
    out.put_i32(query.max_bytes);
    out.put_i8(0); // isolation level: read uncommitted
    out.put_i32(0); // session id
    out.put_i32(-1); // session epoch: none
    out.put_i32(1);
    put_string(out, query.topic)?;
    out.put_i32(count(partitions.len())?);
    for (partition, offset) in partitions {
        out.put_i32(partition);
        out.put_i32(-1); // leader epoch: unchecked
        out.put_i64(offset);
        out.put_i64(-1); // log start offset: for followers only
        out.put_i32(query.max_bytes);
    }
    out.put_i32(0); // forgotten topics
    put_string(out, "")?; // rack
    let size = count(out.len() - start - SIZE_BYTES)?;
    out[start..start + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

fn put_string(out: &mut BytesMut, text: &str) -> Result<(), EncodeError> {
    let length = i16::try_from(text.len()).map_err(|_| too_large("a string"))?;
    out.put_i16(length);
    out.put_slice(text.as_bytes());
    Ok(())
}

fn count(count: usize) -> Result<i32, EncodeError> {
    i32::try_from(count).map_err(|_| too_large("the request"))
}

fn too_large(what: &str) -> EncodeError {
    EncodeError {
        api: "Fetch".to_owned(),
        reason: format!("{what} is too large"),
    }
}

/// One partition of a response, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FetchedPartition<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) error: i16,
    /// Offset after the last record that all in-sync replicas have.
    pub(crate) high_watermark: i64,
    /// Record batches; the last one may be truncated.
    pub(crate) records: &'a [u8],
}

/// Reads the body of a response and calls `sink` for each partition. Returns the response's error
/// code, 0 for none.
pub(crate) fn read<'a, E: From<WireError>>(
    body: &'a [u8],
    mut sink: impl FnMut(FetchedPartition<'a>) -> Result<(), E>,
) -> Result<i16, E> {
    let mut reader = WireReader::new(body);
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
    reader: &mut WireReader<'a>,
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
    use kafka_protocol::messages::fetch_response::{
        AbortedTransaction, FetchableTopicResponse, PartitionData,
    };
    use kafka_protocol::messages::{FetchRequest, FetchResponse, RequestHeader, TopicName};
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
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
        fn encoded_response_round_trips(
            rows in prop::collection::vec(row(), 0..5), cut in 0_usize..300,
        ) {
            let bytes = encoded(&rows);
            let (error, found) = collect(&bytes)?;
            prop_assert_eq!(error, 3);
            prop_assert_eq!(found.len(), rows.len());
            for (found, row) in found.iter().zip(&rows) {
                prop_assert_eq!(found.topic, "t");
                let fields = (found.partition, found.error, found.high_watermark);
                prop_assert_eq!(fields, (row.0, row.1, row.2));
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

    #[test]
    fn written_request_is_decodable() {
        let query = FetchQuery {
            client_id: "me",
            topic: "t",
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1 << 20,
        };
        let mut out = BytesMut::new();
        write(&mut out, 9, &query, [(0, 5), (3, 70)].into_iter()).expect("fits");
        let size = i32::from_be_bytes(out[..4].try_into().expect("four bytes"));
        let mut bytes = out.freeze().slice(4..);
        assert_eq!(bytes.len(), size as usize);
        let header = RequestHeader::decode(&mut bytes, 1).expect("header");
        assert_eq!(
            (header.correlation_id, header.client_id.as_deref()),
            (9, Some("me"))
        );
        let body = FetchRequest::decode(&mut bytes, VERSION).expect("body");
        assert!(bytes.is_empty(), "trailing bytes");
        assert_eq!(
            (body.max_wait_ms, body.min_bytes, body.session_epoch),
            (500, 1, -1)
        );
        let topic = &body.topics[0];
        assert_eq!(topic.topic.as_str(), "t");
        let found: Vec<_> = topic
            .partitions
            .iter()
            .map(|it| {
                (
                    it.partition,
                    it.fetch_offset,
                    it.current_leader_epoch,
                    it.partition_max_bytes,
                )
            })
            .collect();
        assert_eq!(found, [(0, 5, -1, 1 << 20), (3, 70, -1, 1 << 20)]);
    }
}
