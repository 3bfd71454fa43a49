//! ListOffsets version 1: the first or the end offset of partitions.

use kafka_protocol::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafka_protocol::messages::{BrokerId, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::reader::WireReader;

/// Oldest version that Kafka 4 supports; it returns one offset per partition, which is sufficient.
pub(crate) const VERSION: i16 = 1;
/// Timestamp that requests the end offset.
pub(crate) const LATEST: i64 = -1;
/// Timestamp that requests the first offset.
pub(crate) const EARLIEST: i64 = -2;

/// Response for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartitionOffset {
    pub(crate) partition: i32,
    pub(crate) error: i16,
    /// The offset, -1 if there is none.
    pub(crate) offset: i64,
}

/// Returns a request for the offsets that `timestamp` stands for.
pub(crate) fn request(topic: &str, partitions: &[i32], timestamp: i64) -> ListOffsetsRequest {
    let partition = |index: &i32| {
        ListOffsetsPartition::default()
            .with_partition_index(*index)
            .with_timestamp(timestamp)
    };
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(partitions.iter().map(partition).collect());
    ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![topic])
}

pub(crate) fn read(body: &[u8]) -> Result<Vec<PartitionOffset>, WireError> {
    let mut reader = WireReader::new(body);
    let mut offsets = Vec::new();
    for _ in 0..reader.count(6, "topics")? {
        reader.string("topic name")?;
        for _ in 0..reader.count(22, "partitions")? {
            let partition = reader.i32("partition")?;
            let error = reader.i16("partition error")?;
            reader.i64("timestamp")?;
            let offset = reader.i64("offset")?;
            offsets.push(PartitionOffset {
                partition,
                error,
                offset,
            });
        }
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::ListOffsetsResponse;
    use kafka_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encoded_response_round_trips(
            rows in prop::collection::vec((any::<i32>(), any::<i16>(), any::<i64>()), 0..6),
            noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let partition = |(partition, error, offset): &(i32, i16, i64)| {
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(*partition)
                    .with_error_code(*error)
                    .with_offset(*offset)
            };
            let topic = ListOffsetsTopicResponse::default()
                .with_name(TopicName(StrBytes::from_static_str("t")))
                .with_partitions(rows.iter().map(partition).collect());
            let response = ListOffsetsResponse::default().with_topics(vec![topic]);
            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, VERSION).expect("encodes");
            let found = read(&bytes)?;
            let found = found.iter().map(|row| (row.partition, row.error, row.offset));
            let found: Vec<_> = found.collect();
            prop_assert_eq!(found, rows);
            let _ = read(&noise);
        }
    }
}
